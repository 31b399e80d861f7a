"""``torch.cuda`` answers as the chip that was asked for, on a host that has none."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from estimator.scenario.hardware import Chip
from estimator.scenario.problems import InputProblems, Problem
from runners.program.recording import Recording

CAPABILITIES = {
    "volta": (7, 0), "ampere": (8, 0), "ada": (8, 9), "hopper": (9, 0), "h100": (9, 0), "blackwell": (10, 0),
    "blackwell-ultra": (10, 3), "cdna3": (9, 4), "cdna4": (9, 5), "a100-40gb-pcie": (8, 0), "a100-80gb-pcie": (8, 0),
    "h100-sxm": (9, 0), "v100-32gb-pcie": (7, 0), "t4": (7, 5), "l4": (8, 9), "p4": (6, 1), "p100-pcie": (6, 0),
    "mi100": (9, 0), "mi210": (9, 0), "mi250": (9, 0), "b300": (10, 3), "h20": (9, 0), "gh200": (9, 0),
}  # fmt: skip
"""Compute capability by the catalogue's family of efficiencies (NVIDIA, CUDA GPUs, 2025; LLVM's gfx908 to gfx950)."""

OTHER_CAPABILITIES = {"rtx-a6000": (8, 6)}
SHARED_MEMORY_BYTES = {(7, 0): 98304, (8, 0): 166912, (8, 6): 101376, (8, 9): 101376, (9, 4): 65536}
"""Shared memory that a block may opt into (CUDA C++ programming guide, table of technical specifications)."""


def capability(chip: Chip) -> tuple[int, int]:
    """Return (major, minor) of a chip of the catalogue."""
    return OTHER_CAPABILITIES.get(chip.name) or CAPABILITIES.get(chip.efficiency, (9, 0))


class Device:
    """What the program is told of its device, and the streams that it makes there."""

    def __init__(self, chip: Chip, recording: Recording, *, devices: int, index: int) -> None:
        self.chip = chip
        self.recording = recording
        self.devices = devices
        self.index = index
        self.told = torch.device("cuda", index)
        self.capability = capability(chip)
        self.streams: dict[int, Stream] = {}
        self.default = Stream.__new__(Stream)
        self.default._number = 0
        self.default._device = self
        self.streams[0] = self.default

    @property
    def current(self) -> Stream:
        """The stream on which the program launches."""
        return self.streams[self.recording.stream]

    def properties(self) -> types.SimpleNamespace:
        """Return what ``get_device_properties`` gives."""
        major, minor = self.capability
        shared = SHARED_MEMORY_BYTES.get(self.capability, 232448)
        return types.SimpleNamespace(
            name=self.chip.label or self.chip.name, major=major, minor=minor,
            total_memory=int(self.chip.memory_bytes), multi_processor_count=self.chip.compute_units, warp_size=32,
            is_integrated=False, is_multi_gpu_board=False, L2_cache_size=int(self.chip.l2_bytes),
            max_threads_per_multi_processor=2048, max_threads_per_block=1024, regs_per_multiprocessor=65536,
            shared_memory_per_block=49152, shared_memory_per_block_optin=shared,
            shared_memory_per_multiprocessor=shared + 1024, clock_rate=int(self.chip.clock_hz / 1e3),
            memory_clock_rate=0, memory_bus_width=0, pci_bus_id=0, pci_device_id=0, pci_domain_id=0,
            gcnArchName=f"sm_{major}{minor}", uuid="GPU-00000000-0000-0000-0000-000000000000",
        )  # fmt: skip


class Stream:
    """A stream of the device: work on it is in order, and waits for what it is told to wait for."""

    _made_by: Device

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self._device = type(self)._made_by
        self.priority = priority
        self._number = self._device.recording.new_stream(f"stream {len(self._device.streams)}")
        self._device.streams[self._number] = self

    priority = 0
    device_type = 1

    @property
    def device(self) -> torch.device:
        """Its device, as the program knows it."""
        return self._device.told

    @property
    def device_index(self) -> int:
        """Index of its device."""
        return self._device.index

    @property
    def stream_id(self) -> int:
        """A number of its own, 0 of the default stream."""
        return self._number

    cuda_stream = stream_id

    def wait_stream(self, other: Stream) -> None:
        """Wait for all that the other has been given."""
        recording = self._device.recording
        recording.wait(self._number, recording.last_on(other._number))

    def wait_event(self, event: Event) -> None:
        """Wait for what the event was recorded after."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work given so far."""
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let the host wait for its work."""
        recording = self._device.recording
        last = recording.last_on(self._number)
        if last >= 0:
            recording.sync(last)

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is captured: never."""
        return False

    def query(self) -> bool:
        """Whether it has no work left."""
        return True

    def __enter__(self) -> Stream:
        self._context = use(self)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(None, None, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._number == self._number

    def __hash__(self) -> int:
        return hash(("stream", self._number))


class Event:
    """A mark on a stream."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at = -1

    def record(self, stream: Stream | None = None) -> None:
        """Mark the stream's last work, of the present stream where none is given."""
        stream = stream or Stream._made_by.current
        recording = stream._device.recording
        self._at = recording.last_on(stream._number)
        self._step = recording.step

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the mark."""
        stream = stream or Stream._made_by.current
        recording = stream._device.recording
        if self._at >= 0 and self._step == recording.step:
            recording.wait(stream._number, self._at)

    def synchronize(self) -> None:
        """Let the host wait for the mark."""
        recording = Stream._made_by.recording
        if self._at >= 0 and self._step == recording.step:
            recording.sync(self._at)

    def query(self) -> bool:
        """Whether the mark was reached."""
        return True

    def elapsed_time(self, _: Event) -> float:
        """Milliseconds between two marks: a placeholder."""
        return 1.0

    _step = 0


@contextlib.contextmanager
def use(stream: Stream | None) -> Iterator[None]:
    """Launch on that stream within."""
    if stream is None:
        yield
        return
    recording = stream._device.recording
    before = recording.stream
    recording.stream = stream._number
    try:
        yield
    finally:
        recording.stream = before


def install(device: Device) -> None:
    """Make ``torch.cuda`` and its neighbours answer as the device, for the rest of the process."""
    Stream._made_by = device
    cuda: Any = torch.cuda
    for name, answer in _answers(device).items():
        setattr(cuda, name, answer)
    for name in _MEMORY_NAMES:
        setattr(cuda.memory, name, getattr(cuda, name))
    cuda.streams.Stream = cuda.Stream
    cuda.streams.Event = cuda.Event
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, _nothing)
    for name in ("get_rng_state", "set_rng_state", "manual_seed", "manual_seed_all"):
        setattr(cuda.random, name, getattr(cuda, name))
    for name in ("start", "stop"):
        setattr(cuda.profiler, name, _nothing)
    cuda.graphs.CUDAGraph = cuda.CUDAGraph
    cuda.nccl.version = _constant((2, 27, 5))
    anywhere: Any = torch
    for name in ("preferred_linalg_library", "preferred_blas_library"):
        setattr(anywhere.backends.cuda, name, _nothing)
    anywhere.Event, anywhere.Stream = cuda.Event, cuda.Stream
    anywhere.version.cuda = "13.0"
    anywhere.backends.cuda.is_built = _true
    anywhere.backends.cudnn.is_available = _true
    anywhere.backends.cudnn.version = lambda: 92000
    anywhere.backends.cuda.is_flash_attention_available = _true
    anywhere._C._cuda_getCurrentRawStream = _constant(0)  # which torch's compiler imports where there is CUDA
    anywhere._C._get_accelerator = lambda *_, **__: torch.device("cuda")
    accelerator = anywhere.accelerator
    for name, answer in {
        "is_available": _true,
        "device_count": cuda.device_count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: device.index,
        "current_device_idx": lambda: device.index,
        "set_device_index": cuda.set_device,
        "set_device_idx": cuda.set_device,
        "current_stream": cuda.current_stream,
        "set_stream": cuda.set_stream,
        "synchronize": cuda.synchronize,
        **{name: getattr(cuda, name) for name in _MEMORY_NAMES if hasattr(accelerator, name)},
    }.items():
        setattr(accelerator, name, answer)


_MEMORY_NAMES = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "mem_get_info", "empty_cache",
    "reset_peak_memory_stats", "reset_max_memory_allocated", "memory_stats", "memory_summary", "memory_snapshot",
    "set_per_process_memory_fraction", "_record_memory_history", "_snapshot", "_dump_snapshot",
    "reset_accumulated_memory_stats", "_set_allocator_settings",
)  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _true(*_: Any, **__: Any) -> bool:
    return True


def _false(*_: Any, **__: Any) -> bool:
    return False


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class _Runtime:
    """``torch.cuda.cudart()``: each of its functions succeeds, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return _constant(0)


class _Graph:
    """``torch.cuda.CUDAGraph``: what is captured runs when it is replayed, which nothing here does."""

    def __init__(self, *_: Any, **__: Any) -> None:
        remedy = "Run the program without: its kernels are the same, and torch.compile's own graphs need no change."
        raise InputProblems([Problem(field="CUDAGraph", message="a captured graph is not traced", remedy=remedy)])


def _statistics(held_bytes: int, peak_bytes: int) -> dict[str, int]:
    """What ``memory_stats`` tells, by torch's names: of bytes what is held; of pieces none, as nobody counts them."""
    counts = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
    found = dict.fromkeys((*counts, "max_split_size"), 0)
    moments = ("current", "peak", "allocated", "freed")
    bytes_of = dict(zip(moments, (held_bytes, peak_bytes, held_bytes, 0), strict=True))
    for pool in ("all", "small_pool", "large_pool"):
        for moment in moments:
            for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
                found[f"{name}.{pool}.{moment}"] = 0 if pool == "small_pool" else bytes_of[moment]
            for name in ("inactive_split_bytes", "allocation", "segment", "active", "inactive_split"):
                found[f"{name}.{pool}.{moment}"] = 0
    return found


def _answers(device: Device) -> dict[str, Any]:
    recording = device.recording
    storages = recording.storages
    total = int(device.chip.memory_bytes)

    def synchronize(*_: Any, **__: Any) -> None:
        recording.sync()

    def set_device(index: Any) -> None:
        given = torch.device(index).index if isinstance(index, (str, torch.device)) else index
        if given is not None and given >= 0:
            device.index = given
            device.told = torch.device("cuda", given)

    def set_stream(stream: Stream) -> None:
        recording.stream = stream._number

    def reset_peak(*_: Any, **__: Any) -> None:
        storages.peak_bytes = storages.bytes

    def statistics(*_: Any, **__: Any) -> dict[str, int]:
        return _statistics(storages.bytes, storages.peak_bytes)

    class Context:
        """``torch.cuda.device``: there is one device."""

        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: Any) -> None: ...

    state = torch.zeros(16, dtype=torch.uint8)
    return {
        "is_available": _true, "is_initialized": _true, "is_bf16_supported": _constant(device.capability >= (8, 0)),
        "is_tf32_supported": _constant(device.capability >= (8, 0)), "_is_compiled": _true, "init": _nothing,
        "_lazy_init": _nothing, "_lazy_call": _nothing, "_is_in_bad_fork": _false, "ipc_collect": _nothing,
        "device_count": lambda: device.devices, "_device_count_nvml": lambda: device.devices,
        "current_device": lambda: device.index, "set_device": set_device,
        "get_device_name": lambda *_, **__: device.properties().name,
        "get_device_capability": lambda *_, **__: device.capability,
        "get_device_properties": lambda *_, **__: device.properties(), "can_device_access_peer": _true,
        "get_arch_list": lambda: [f"sm_{device.capability[0]}{device.capability[1]}"],
        "device": Context, "device_of": Context, "_DeviceGuard": Context, "synchronize": synchronize,
        "Stream": Stream, "Event": Event, "ExternalStream": Stream, "StreamContext": use, "stream": use,
        "current_stream": lambda *_, **__: device.current, "default_stream": lambda *_, **__: device.default,
        "set_stream": set_stream, "is_current_stream_capturing": _false,
        "memory_allocated": lambda *_, **__: storages.bytes,
        "max_memory_allocated": lambda *_, **__: storages.peak_bytes,
        "memory_reserved": lambda *_, **__: storages.bytes, "max_memory_reserved": lambda *_, **__: storages.peak_bytes,
        "mem_get_info": lambda *_, **__: (max(total - storages.bytes, 0), total), "empty_cache": _nothing,
        "reset_peak_memory_stats": reset_peak, "reset_max_memory_allocated": reset_peak,
        "reset_max_memory_cached": reset_peak, "memory_cached": lambda *_, **__: storages.bytes,
        "max_memory_cached": lambda *_, **__: storages.peak_bytes, "reset_accumulated_memory_stats": _nothing,
        "memory_stats": statistics, "memory_summary": _constant(""), "memory_snapshot": _constant([]),
        "set_per_process_memory_fraction": _nothing, "_record_memory_history": _nothing, "_snapshot": _constant({}),
        "_dump_snapshot": _nothing, "_set_allocator_settings": _nothing, "utilization": _constant(0),
        "memory_usage": _constant(0), "temperature": _constant(0), "power_draw": _constant(0),
        "clock_rate": _constant(0), "get_rng_state": lambda *_, **__: state.clone(), "set_rng_state": _nothing,
        "get_rng_state_all": lambda: [state.clone()] * device.devices, "set_rng_state_all": _nothing,
        "manual_seed": _nothing, "manual_seed_all": _nothing, "seed": _nothing, "seed_all": _nothing,
        "initial_seed": _constant(0), "get_sync_debug_mode": _constant(0), "set_sync_debug_mode": _nothing,
        "_sleep": _nothing, "cudart": _constant(_Runtime()), "check_error": _nothing, "CUDAGraph": _Graph,
        "default_generators": tuple(torch.Generator() for _ in range(device.devices)),
        "get_allocator_backend": _constant("native"), "host_memory_stats": _constant({}),
        "list_gpu_processes": _constant(""),
    }  # fmt: skip
