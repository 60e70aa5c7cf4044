"""Record a program that knows nothing of it, stop the model it spoke to, and run it again all the same.

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


def replaykit(*arguments: str, **variables: str) -> None:
    print(f"$ replaykit {' '.join(arguments[:4])} …", flush=True)
    command = [sys.executable, "-m", "replaykit", *arguments]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    print(flush=True)


def main() -> None:
    os.environ.pop("OPENAI_API_KEY", None)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        server = model.started()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        replaykit("record", "--name", "charge", "--", *AGENT, OPENAI_BASE_URL=address, OPENAI_API_KEY="sk-secret")
        server.shutdown()
        server.server_close()
        print("The model is gone, and so is the key.\n")
        replaykit("scaffold", "charge", "--out", "cases/charge")
        replaykit("replay", "cases/charge", "--", *AGENT)


main()
