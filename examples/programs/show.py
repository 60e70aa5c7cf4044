"""Record a program that fails and knows nothing of it, stop the model it spoke to, and run it again all the same.

python examples/programs/show.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import model

HERE = Path(__file__).parent
AGENT = [sys.executable, str(HERE / "agent.py"), "Why was I charged?"]
FIXED = [sys.executable, str(HERE / "fixed_agent.py"), "Why was I charged?"]


def replaykit(*arguments: str, code: int = 0, **variables: str) -> None:
    print(f"$ replaykit {' '.join(arguments[:4])} …", flush=True)
    command = [sys.executable, "-m", "replaykit", *arguments]
    ended = subprocess.run(command, env={**os.environ, **variables}, check=False)
    assert ended.returncode == code, ended
    print(flush=True)


def main() -> None:
    os.environ.pop("OPENAI_API_KEY", None)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        server = model.started()
        known = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "sk-secret"}
        replaykit("record", "--name", "charge", "--", *AGENT, code=1, **known)
        server.shutdown()
        server.server_close()
        print("The model is gone, and so is the key.\n")
        replaykit("scaffold", "charge", "--out", "cases/charge")
        replaykit("replay", "cases/charge", "--expect", "reproduced", "--", *AGENT)
        replaykit("replay", "cases/charge", "--", *FIXED)


main()
