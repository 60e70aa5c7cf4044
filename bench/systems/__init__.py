"""One module a system. Each names itself and offers the measurements that apply to it.

    NAME            what the table calls it
    DISTRIBUTION    what `pip install` calls it
    calls, growing_calls, checkpoints, import_time, help_time, …   (work: Path, **parameters) -> numbers

The system's own package is imported inside the functions only: the orchestrator reads these modules in an
interpreter that may not have it.
"""
