"""Pin randomness: `random`, `uuid4`, `uuid1` and NumPy's generators draw from a seed, for the whole process.

A recording stores its seed, and a replay begins with it. A recording leaves `os.urandom` and `secrets` alone, since a
recorded program makes real keys with them. It only notes that they were used, and whether by a library or by the
agent's own code, which may have decided something by them. Afterwards, the module's own generators are in their
previous state.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from replaykit.model.pins import HASHES, LIBRARY_HASHES, LIBRARY_SECRETS, SECRETS
from replaykit.seam.hooks import AfterImport
from replaykit.seam.own_code import frames_from, is_library, is_ours, module_name
from replaykit.seam.own_process import reads_of_process_noticed
from replaykit.seam.scope import inside_call

if TYPE_CHECKING:
    import random

_RANDOM, _UUIDS, _BITS, _SEEDS, _NUMPY, _NUMPY_SEEDS, _FILES, _KEYS = range(8)
_UUID_EPOCH = 0x01B21DD213814000  # 100 ns from 1582 to 1970
_TICKS_PER_MS = 10_000
_MOST = 2**32
_AGE_S = 1.0  # how long after a look at the clock a seed still counts as the time
_UNITS_PER_S = (1, 1_000, 1_000_000, 1_000_000_000)

_lock = threading.Lock()
_held_runs = 0
_is_held = False


class HeldChance:
    """The generators behind all random functions, seeded alike for the same seed and salt."""

    def __init__(self, seed: int | str, started_at: float, *, keys: bool, draw: int = 0) -> None:
        """`keys`: pin `os.urandom` as well; `draw`: see `Pins.draw`."""
        self._seed = seed
        self._draw = draw
        self._started_ms = round(started_at * 1_000_000) // 1000
        self._holds_keys = keys
        self._draws = threading.Lock()
        self._generators: dict[int, random.Random] = {}
        self._seeding = threading.Lock()
        self._time_seeds: dict[float, int] = {}
        self._has_drawn = False
        self.not_held: set[str] = set()
        """Names of the unpinned sources that were used: `SECRETS`, `HASHES`, and those of libraries."""
        self._time_uuids = 0
        self._numpy: Any = None

    def begin(self, salt: str) -> None:
        """Start again, for a process of that name."""
        import random  # noqa: PLC0415 (slow to import, as others below; few cases have a seed)

        self._salt = salt
        self._generators.clear()
        self._time_seeds.clear()
        self._time_uuids = 0
        random.seed(self._digest(_RANDOM))
        self._state = random.getstate()
        if self._numpy is not None:
            self._begin_numpy(self._numpy)
        tempfile: Any = sys.modules.get("tempfile")
        if tempfile is not None:  # names of its files occur in arguments of tools
            tempfile._name_sequence = None

    def has_drawn(self) -> bool:
        """True if anything was drawn that a replay has to draw again."""
        import random  # noqa: PLC0415

        if self._has_drawn or random.getstate() != self._state:
            return True
        return self._numpy is not None and not _is_same(self._numpy.get_state(), self._numpy_state)

    def _generator(self, number: int) -> random.Random:
        """Return one of the generators, created when it is first used, since most runs need none."""
        import random  # noqa: PLC0415

        found = self._generators.get(number)
        if found is None:
            found = self._generators[number] = random.Random(self._digest(number))
        return found

    def _digest(self, number: int | str) -> bytes:
        from hashlib import blake2b  # noqa: PLC0415

        seed = self._seed
        if isinstance(seed, str) and number in (_RANDOM, _NUMPY):
            # The program may have seeded these two before its run: then their numbers follow from that seed alone.
            seed = seed.rpartition(".")[2]
        if number == _KEYS and self._draw:
            number = f"{number}.{self._draw}"
        return blake2b(f"{seed}/{number}/{self._salt}".encode(), digest_size=16).digest()

    @contextmanager
    def standing(self, salt: str) -> Iterator[HeldChance]:
        """Draw everything from here inside of the block."""
        import random  # noqa: PLC0415

        state, in_common = random.getstate(), random.getrandbits
        real, in_random, real_seed = os.urandom, random._urandom, random.Random.seed  # type: ignore[attr-defined]

        def urandom(size: int, /) -> bytes:
            frame = sys._getframe(1)
            is_uuid = module_name(frame) == "uuid"
            if not is_uuid and not self._holds_keys:
                self._note_keys(frame)
                return real(size)
            with self._draws:
                self._has_drawn = True
                return self._generator(_UUIDS if is_uuid else _KEYS).randbytes(size)

        def getrandbits(count: int, /) -> int:
            if module_name(sys._getframe(1)) != "uuid":
                return in_common(count)
            # uuid1 asks the system if the clock is real; that must not advance `random`.
            return self._drawn_bits(_BITS, count)

        def seed_itself(generator: random.Random, a: Any = None, version: int = 2) -> None:
            # Without a seed the C code would ask the operating system; a clock never gives the same one again.
            if a is None:
                a = self._own_seed(sys._getframe(1))
            elif _is_current_time(a):
                a = self._seed_for(a)
            real_seed(generator, a, version)

        os.urandom = random._urandom = urandom  # type: ignore[attr-defined]
        random.Random.seed = seed_itself  # type: ignore[method-assign,assignment]
        random.seed = partial(seed_itself, random._inst)
        random.getrandbits = getrandbits
        tempfile: Any = sys.modules.get("tempfile")
        names = getattr(tempfile, "_name_sequence", None)
        self.begin(salt)
        self._has_drawn = False
        try:
            with self._time_based_uuids(), self._numpy_generators(), self._hashes(), self._reads_of_process():
                yield self
        finally:
            if tempfile is not None:
                tempfile._name_sequence = names
            os.urandom, random._urandom = real, in_random  # type: ignore[attr-defined]
            random.Random.seed = real_seed  # type: ignore[method-assign]
            random.seed, random.getrandbits = random._inst.seed, in_common
            random.setstate(state)

    @contextmanager
    def _hashes(self) -> Iterator[None]:
        """Notice the use of a text's hash, which is different in every process."""
        if self._holds_keys or hash_seed():
            yield
            return
        real = builtins.hash

        def noticing(value: object, /) -> int:
            frame = sys._getframe(1)
            # Hashes for sets and dictionaries of the agent's objects decide nothing, and neither do our own.
            if not isinstance(value, int | float) and frame.f_code.co_name != "__hash__" and not is_ours(frame):
                if inside_call():
                    return real(value)
                if is_library(frame.f_code.co_filename):
                    self.not_held.add(LIBRARY_HASHES)
                else:
                    self.not_held.add(HASHES)
                    builtins.hash = real
            return real(value)

        builtins.hash = noticing
        try:
            yield
        finally:
            builtins.hash = real

    @contextmanager
    def _reads_of_process(self) -> Iterator[None]:
        if self._holds_keys:
            yield
            return
        with reads_of_process_noticed(self.not_held):
            yield

    def _note_keys(self, frame: FrameType) -> None:
        """Note who asked for random bytes, ignoring modules that just pass them on, and ourselves."""
        callers = (caller for caller in frames_from(frame) if module_name(caller) not in ("random", "secrets"))
        caller = next(callers, None)
        if caller is None or is_ours(caller) or inside_call():
            return
        self.not_held.add(LIBRARY_SECRETS if is_library(caller.f_code.co_filename) else SECRETS)

    def _own_seed(self, frame: FrameType) -> int:
        """Return the seed of a generator that is created without one. `tempfile` creates its own once in a process, and
        again in its run, which must not affect the others."""
        maker = frame.f_back
        if maker is not None and module_name(maker) == "tempfile":
            return self._drawn_bits(_FILES, 128)
        return self._drawn_bits(_SEEDS, 128)

    def _seed_for(self, moment: float) -> int:
        """Return the seed that stands for a moment: generators with one seed draw alike."""
        with self._seeding:
            found = self._time_seeds.get(moment)
            if found is None:
                found = self._time_seeds[moment] = self._drawn_bits(_SEEDS, 128)
            return found

    def _drawn_bits(self, generator: int, count: int) -> int:
        with self._draws:
            self._has_drawn = True
            return self._generator(generator).getrandbits(count)

    @contextmanager
    def _time_based_uuids(self) -> Iterator[None]:
        """Make `uuid1` count from the beginning of the run, on an anonymous machine."""
        held: list[tuple[Any, Any]] = []

        def generate() -> tuple[bytes, None]:
            return self._time_uuid(), None

        def hold(uuid: Any) -> None:
            if self._started_ms and hasattr(uuid, "_generate_time_safe"):
                held.append((uuid, uuid._generate_time_safe))
                uuid._generate_time_safe = generate

        try:
            with _once_imported("uuid", hold):
                yield
        finally:
            for uuid, original in held:
                uuid._generate_time_safe = original

    def _time_uuid(self) -> bytes:
        from hashlib import blake2b  # noqa: PLC0415

        with self._draws:
            self._has_drawn = True
            self._time_uuids += 1
            ticks = self._started_ms * _TICKS_PER_MS + _UUID_EPOCH + self._time_uuids
        place = blake2b(f"{self._seed}/uuid1/{self._salt}".encode(), digest_size=8).digest()
        clock = 0x8000 | int.from_bytes(place[:2], "big") & 0x3FFF
        node = bytes([place[2] | 1]) + place[3:]  # a multicast address, which no machine has
        time_low, time_mid, time_high = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, 0x1000 | ticks >> 48 & 0x0FFF
        head = time_low.to_bytes(4, "big") + time_mid.to_bytes(2, "big") + time_high.to_bytes(2, "big")
        return head + clock.to_bytes(2, "big") + node

    @contextmanager
    def _numpy_generators(self) -> Iterator[None]:
        held: list[tuple[Any, Any, Any]] = []

        def hold(numpy_random: Any) -> None:
            source: Any = sys.modules["numpy.random.bit_generator"]
            held.append((source, source.randbits, numpy_random.get_state()))
            source.randbits = partial(self._drawn_bits, _NUMPY_SEEDS)
            self._numpy = numpy_random
            self._begin_numpy(numpy_random)

        try:
            with _once_imported("numpy.random", hold):
                yield
        finally:
            for source, randbits, state in held:
                source.randbits = randbits
                self._numpy.set_state(state)

    def _begin_numpy(self, numpy_random: Any) -> None:
        digest = self._digest(_NUMPY)
        numpy_random.seed([int.from_bytes(digest[at : at + 4], "big") for at in (0, 4, 8, 12)])
        self._numpy_state = numpy_random.get_state()


def _is_current_time(seed: object) -> bool:
    """Return whether a seed is the time: in seconds, or in the smaller units that programs use."""
    if type(seed) is not int and type(seed) is not float:
        return False
    # A number such as 42 is a constant, even on a machine that was started 42 seconds ago.
    clocks = [time.time()]
    if seed >= _MOST or seed % 1:
        clocks += [time.monotonic(), time.perf_counter()]
    return any(abs(seed / unit - moment) <= _AGE_S for unit in _UNITS_PER_S for moment in clocks)


def hash_seed() -> str:
    """Return what determines the order of sets of texts; empty if it differs in every process."""
    value = os.environ.get("PYTHONHASHSEED", "")
    return value if value.isdecimal() else ""


@contextmanager
def _once_imported(name: str, action: Callable[[Any], None]) -> Iterator[None]:
    """Apply a function to a module: now, or as soon as it is imported inside of the block."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        yield
        return
    finder: Any = AfterImport(name.__eq__, action)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def held_for_run(run_id: str, started_at: float) -> Iterator[tuple[str, HeldChance | None]]:
    """Give a recorded run's seed and pinned randomness; neither if another run of the process has pinned it.

    The seed is the run's id, so that no two runs draw the same ids, followed by a number for seeds set by the program
    itself: a program that seeds `random` before its run draws the same in every recording.
    """
    global _held_runs, _is_held
    with _lock:
        is_free, _is_held = not _is_held, True
        _held_runs += is_free
        seed = f"{run_id}.{_own_seed(_held_runs):08x}"
    if not is_free:
        yield "", None
        return
    try:
        with HeldChance(seed, started_at, keys=False).standing("") as chance:
            yield seed, chance
    finally:
        with _lock:
            _is_held = False


def _own_seed(number: int) -> int:
    """Return a number that depends on how the program has seeded its generators, and on the run's number in it."""
    import random  # noqa: PLC0415

    known = [hash(random.getstate()[1]), number]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        known.append(int(numpy.random.get_state()[1].sum()))
    return hash(tuple(known)) % _MOST


def _is_same(before: Any, now: Any) -> bool:
    """True if a generator of NumPy has not advanced."""
    return bool((before[1] == now[1]).all()) and before[2:] == now[2:]
