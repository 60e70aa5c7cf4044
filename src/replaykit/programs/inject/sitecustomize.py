"""The start-up file of a recorded program's Python processes: runs the file that it hides, then joins the run.

Nothing here may stop a program: an interpreter without ReplayKit continues by itself.
"""

import gc
import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def _give_way() -> None:
    """Run the `sitecustomize` module that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_give_way()
if os.environ.get("REPLAYKIT_SESSION"):
    collects_garbage = gc.isenabled()
    gc.disable()  # what is imported here stays, and collections would take a fifth of this start-up
    try:
        from replaykit.programs.process_startup import start
    except ImportError:
        pass
    else:
        start()
        gc.freeze()  # the program's own collections can skip it too
    finally:
        if collects_garbage:
            gc.enable()
