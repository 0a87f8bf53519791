"""From what programs have (tuples, arrays, tensors) to lists of descriptors. Needs neither numpy nor torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import _bindings as nixlBind

MEMORY_TYPES = {
    "DRAM": nixlBind.DRAM_SEG,
    "VRAM": nixlBind.VRAM_SEG,
    "FILE": nixlBind.FILE_SEG,
    "BLOCK": nixlBind.BLK_SEG,
    "OBJ": nixlBind.OBJ_SEG,
    "cpu": nixlBind.DRAM_SEG,
    "cuda": nixlBind.VRAM_SEG,
}


class DescriptorError(TypeError):
    """A list, array or tensor from which no list of descriptors can be made; the text says why."""


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor as torch has them."""
    return hasattr(value, "data_ptr") and hasattr(value, "element_size")


def array_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a numpy array, a memoryview or another object with a buffer; None for everything else.

    bytes are text or serialized lists, never an array.
    """
    if isinstance(value, (bytes, bytearray)):
        return None
    # Asked of the class, since the attribute itself makes a dictionary.
    if hasattr(type(value), "__array_interface__"):
        shape = getattr(value, "shape", None)
        if shape is not None:
            return tuple(shape)
    try:
        with memoryview(value) as view:
            return view.shape
    except (TypeError, BufferError):
        return None


def xfer_list(descs: Any, mem_type: str | None, sorted: bool = False) -> nixlBind.nixlXferDList:
    """A list for transfers. Raises DescriptorError, or KeyError for an unknown mem_type."""
    if isinstance(descs, nixlBind.nixlXferDList):
        result = descs
    else:
        result = _convert(nixlBind.nixlXferDList, descs, mem_type, ())
    if sorted:
        check_sorted(result)
    return result


def reg_list(descs: Any, mem_type: str | None, sorted: bool = False) -> nixlBind.nixlRegDList:
    """A list for registering; errors as those of xfer_list."""
    if isinstance(descs, nixlBind.nixlRegDList):
        result = descs
    else:
        result = _convert(nixlBind.nixlRegDList, descs, mem_type, ("",))
    if sorted:
        check_sorted(result)
    return result


def remote_list(descs: Any, mem_type: str | None) -> nixlBind.nixlRemoteDList:
    """A list for memory views: tuples (addr, len, dev_id, agent name) only."""
    if isinstance(descs, nixlBind.nixlRemoteDList):
        return descs
    if array_shape(descs) is not None or is_tensor(descs):
        raise DescriptorError("remote descriptors are tuples (addr, len, dev_id, agent name)")
    return _from_tuples(nixlBind.nixlRemoteDList, descs, mem_type, 4)


def check_sorted(descs: Iterable[tuple]) -> None:
    """Raises ValueError unless the list is in the order of device, address and length."""
    previous = None
    for position, desc in enumerate(descs):
        key = (desc[2], desc[0], desc[1])
        if previous is not None and key < previous:
            raise ValueError(f"sorted=True, but descs[{position}] {desc[:3]} comes before the one in front of it")
        previous = key


def _convert(kind: Any, descs: Any, mem_type: str | None, tail: tuple) -> Any:
    """`tail` is what tuples of this kind have behind (addr, len, dev_id)."""
    if is_tensor(descs):
        return _from_tensors(kind, [descs], mem_type, tail)
    shape = array_shape(descs)
    if shape is not None:
        return _from_array(kind, descs, shape, mem_type)
    if isinstance(descs, (list, tuple)) and descs and is_tensor(descs[0]):
        return _from_tensors(kind, descs, mem_type, tail)
    return _from_tuples(kind, descs, mem_type, 3 + len(tail))


def _memory_type(mem_type: str | None) -> nixlBind.nixl_mem_t:
    if mem_type is None:
        raise DescriptorError(f"a mem_type is needed; known are {', '.join(MEMORY_TYPES)}")
    return MEMORY_TYPES[mem_type]


def _from_array(kind: Any, array: Any, shape: tuple[int, ...], mem_type: str | None) -> Any:
    if len(shape) != 2 or shape[1] != 3:
        raise DescriptorError(f"an array of descriptors has the shape Nx3 (addr, len, dev_id), not {shape}")
    if shape[0] == 0:
        raise IndexError("the array of descriptors is empty")
    return kind(_memory_type(mem_type), array)


def _from_tuples(kind: Any, descs: Any, mem_type: str | None, fields: int) -> Any:
    if not hasattr(descs, "__getitem__"):
        raise TypeError(f"no list of descriptors can be made of a {type(descs).__name__}")
    if not isinstance(descs, (list, tuple)):
        raise DescriptorError(f"no list of descriptors can be made of a {type(descs).__name__}")
    if not descs:
        raise IndexError("the list of descriptors is empty")
    first = descs[0]
    if not isinstance(first, tuple):
        raise DescriptorError(
            f"descs[0] must be a tuple of {fields} elements or a tensor, not a {type(first).__name__}"
        )
    if len(first) != fields:
        raise DescriptorError(f"descs[0] must have {fields} elements, not {len(first)}")
    return kind(_memory_type(mem_type), descs if isinstance(descs, list) else list(descs))


def _from_tensors(kind: Any, tensors: Sequence[Any], mem_type: str | None, tail: tuple) -> Any:
    device = None
    descs = []
    for position, tensor in enumerate(tensors):
        if not is_tensor(tensor):
            raise DescriptorError(f"descs[{position}] is a {type(tensor).__name__} among tensors")
        if not tensor.is_contiguous():
            raise DescriptorError(f"the tensor descs[{position}] is not contiguous")
        if device is None:
            device = tensor.device
        elif str(tensor.device) != str(device):
            raise DescriptorError(f"the tensor descs[{position}] is on {tensor.device}, those before it on {device}")
        # get_device() of a tensor in host memory is negative.
        descs.append((tensor.data_ptr(), tensor.numel() * tensor.element_size(), max(tensor.get_device(), 0), *tail))
    if mem_type is None:
        mem_type = getattr(device, "type", None) or str(device).partition(":")[0]
        if mem_type not in MEMORY_TYPES:
            raise DescriptorError(f"tensors on {device} need a mem_type; known are {', '.join(MEMORY_TYPES)}")
    return kind(_memory_type(mem_type), descs)
