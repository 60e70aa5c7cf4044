"""Found first on the path of a recorded program's Python processes: gives way to any other, then takes part.

Nothing here may stop a program that has nothing to do with ReplayKit: an interpreter that lacks it goes on alone.
"""

import gc
import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def _give_way() -> None:
    """Run the start-up file that this one stands in front of."""
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
    gc.disable()  # what is imported here stays, and looking for garbage in it takes a fifth of this process's start
    try:
        from replaykit.programs.process_startup import start
    except ImportError:
        pass
    else:
        start()
        gc.freeze()  # the program's own collections need not look at it either
    finally:
        if collects_garbage:
            gc.enable()
