# Frozen buffers and packed operands.

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *, size_t, int, int, int, int64_t)
    int munmap(void *, size_t)
    int madvise(void *, size_t, int)
    int mprotect(void *, size_t, int)
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_SHARED, MADV_DONTNEED, MADV_HUGEPAGE
    void *MAP_FAILED

cdef extern from "stdlib.h" nogil:
    void *aligned_alloc(size_t, size_t)

cdef extern from "_packs.h":
    ctypedef struct pb_region:
        pass
    void *pb_pack_alloc(size_t, pb_region **)
    void pb_pack_free(void *, size_t, pb_region *)


cdef class Mapped:
    """A whole file, mapped read-only and shared with every process that maps it; unmapped with its last user."""

    cdef char *data
    cdef readonly size_t size

    def __cinit__(self, int file, size_t size):
        cdef void *found
        if not size:
            raise ValueError("an empty file cannot be mapped")
        found = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0)
        if found == MAP_FAILED:
            raise OSError("cannot map a file of packs")
        self.data, self.size = <char *>found, size
        madvise(found, size, MADV_HUGEPAGE)  # advice: few file systems have huge pages

    def __dealloc__(self):
        if self.data != NULL:
            munmap(self.data, self.size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def part(self, size_t at, size_t size, stored=None):
        """`size` bytes from `at` on as a `Frozen`. stored: finds packs of it, see `Frozen.stored`."""
        cdef Frozen made
        if at > self.size or size > self.size - at:
            raise ValueError("a part lies outside its file")
        made = Frozen.__new__(Frozen)
        made.home, made.data, made.size, made.stored = self, self.data + at, size, stored
        return made

    def let_go(self):
        """Return the pages to the system; reading brings them back from the file."""
        madvise(self.data, self.size, MADV_DONTNEED)


cdef int64_t frozen_epoch = 1  # rises when a frozen buffer dies: its address may be another object's from then on


@cython.no_gc_clear  # the collector must not take the file away before the memory
cdef class Frozen:
    """Bytes that cannot change: a read-only buffer, 64-byte aligned, that arrays are made over.

    Made from any buffer, whose bytes are copied. file: descriptor of a file that already holds the bytes; then they are mapped
    instead, and `let_go` may return their pages to the system until somebody reads them. `Mapped.part` makes one over a part
    of a file. stored: None, or a function of a pack layout's name that gives {(offset, dtype, k, n, row stride, column
    stride): (Mapped, place, bytes)}, the packs of these bytes that lie on the disk.
    """

    cdef void *data
    cdef size_t size
    cdef bint mapped
    cdef Mapped home
    cdef readonly object stored
    cdef object __weakref__

    def __cinit__(self, source=None, int file=-1):
        cdef Py_buffer view
        if source is None:
            return
        PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
        try:
            self.size = view.len
            if file >= 0 and self.size:
                self.data = mmap(NULL, self.size, PROT_READ, MAP_SHARED, file, 0)
                if self.data == MAP_FAILED:
                    self.data = NULL
                    raise OSError("cannot map the frozen array's file")
                self.mapped = True
                return
            self.data = aligned_alloc(64, (self.size + 127) & ~<size_t>63)
            if self.data == NULL:
                raise MemoryError(f"cannot freeze {self.size} bytes")
            memcpy(self.data, view.buf, self.size)
        finally:
            PyBuffer_Release(&view)

    def __dealloc__(self):
        global frozen_epoch
        frozen_epoch += 1
        if self.data != NULL and self.home is None:
            if self.mapped:
                munmap(self.data, self.size)
            else:
                free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __len__(self):
        return self.size

    def let_go(self):
        """Return the pages of a mapped buffer to the system; reading brings them back from the file."""
        cdef size_t start = (<size_t>self.data + 4095) & ~<size_t>4095, end = (<size_t>self.data + self.size) & ~<size_t>4095
        if self.home is not None:
            if end > start:
                madvise(<void *>start, end - start, MADV_DONTNEED)
            return True
        if self.mapped:
            madvise(self.data, self.size, MADV_DONTNEED)
        return self.mapped

    def equals(self, source):
        """Whether a buffer holds the same bytes."""
        cdef Py_buffer view
        cdef bint same = False
        PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
        if <size_t>view.len == self.size:
            with nogil:
                same = memcmp(view.buf, self.data, self.size) == 0
        PyBuffer_Release(&view)
        return same

    def __reduce__(self):
        return (_thaw, (bytes(self),))


def _thaw(data):
    return Frozen(data)


def freeze_array(array, int file=-1):
    """A read-only copy over a `Frozen` buffer; array must be C-contiguous (any shape) with a plain dtype."""
    import numpy

    frozen = Frozen(memoryview(array).cast("B") if array.size else b"", file)
    return numpy.ndarray(array.shape, array.dtype, frozen if array.size else Frozen(bytes(array.itemsize)))


cdef bint is_constant(PyObject *array):
    # signature.is_constant, in C: read-only down to the base
    cdef PyObject *base
    cdef Py_buffer view
    cdef bint fixed
    while True:
        if pb_flags(array) & NPY_ARRAY_WRITEABLE:
            return False
        base = pb_base(array)
        if base == NULL or Py_TYPE(<object>base) == <PyTypeObject *>Frozen:
            return True
        if not pb_is_array_like(base):
            break
        array = base
    try:
        PyObject_GetBuffer(<object>base, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError, ValueError):
        return False
    fixed = view.readonly
    PyBuffer_Release(&view)
    return fixed


# --- packs ------------------------------------------------------------------------------------------------------------
# A pack belongs to the memory that it was made from: the object at the end of the array's chain of bases. When that
# object dies, a weak reference drops the pack and raises the epoch, so that no plan goes on using the address it remembers.

@cython.no_gc_clear
cdef class Pack:
    """A constant operand in a library's panel layout, 64-byte aligned; its own memory, or a part of a file."""

    cdef void *data
    cdef readonly size_t size
    cdef pb_region *home
    cdef Mapped file

    def __dealloc__(self):
        if self.data != NULL and self.file is None:
            pb_pack_free(self.data, self.size, self.home)


class _OwnerRef(_weakref.ref):
    # a weak reference that knows its packs after its object is gone
    __slots__ = ("address", "keys")


cdef dict packs = {}
cdef dict owners = {}  # id of an owner -> _OwnerRef
cdef int64_t pack_epoch = 1


def _drop_packs(reference):
    global pack_epoch
    pack_epoch += 1
    if owners.get(reference.address) is reference:
        del owners[reference.address]
    for key in reference.keys:
        packs.pop(key, None)


def pack_stats():
    """(packs alive, their bytes)."""
    return len(packs), sum((<Pack>p).size for p in packs.values())


def mapped_pack_bytes():
    """Bytes of the packs in use that lie in files (`prebake pack`)."""
    return sum((<Pack>p).size for p in packs.values() if (<Pack>p).file is not None)


cdef object owner_of(PyObject *array):
    # whoever holds the array's memory: the end of the chain of bases that can be referenced weakly
    cdef PyObject *base
    while True:
        base = pb_base(array)
        if base == NULL:
            break
        if not pb_is_array_like(base):
            try:
                _weakref.ref(<object>base)
            except TypeError:
                break  # bytes and the like: while this array lives, they do
            return <object>base
        array = base
    return <object>array


cdef Pack stored_pack(object owner, char *source, const pb_library *library, PackC *spec, int64_t size):
    # the pack of a frozen operand that lies in a file, or None
    cdef Pack pack
    cdef Mapped file
    cdef size_t at
    if type(owner) is not Frozen or (<Frozen>owner).stored is None:
        return None
    stored = (<Frozen>owner).stored((<bytes>library.layout).decode())
    found = stored.get((source - <char *>(<Frozen>owner).data, spec.dtype, spec.k, spec.n, spec.row_stride, spec.col_stride))
    if found is None:
        return None
    file, at = found[0], found[1]
    if found[2] != size or at % 64 or at > file.size or <size_t>size > file.size - at:
        return None  # of another library that calls its layout by the same name: not to be read
    pack = Pack.__new__(Pack)
    pack.size, pack.data, pack.file = size, file.data + at, file
    return pack


cdef void *find_pack(PyObject *array, const pb_library *library, PackC *spec) except NULL:
    # the packed operand for an array that cannot change, made at its first use
    cdef char *source = pb_data(array) + spec.offset
    cdef Pack pack
    cdef int64_t size
    key = (<size_t>source, spec.dtype, spec.k, spec.n, spec.row_stride, spec.col_stride, <bytes>library.layout)
    found = packs.get(key)
    if found is not None:
        return (<Pack>found).data
    size = library.pack_bytes(spec.dtype, spec.k, spec.n)
    owner = owner_of(array)
    pack = stored_pack(owner, source, library, spec, size)
    if pack is None:
        pack = Pack.__new__(Pack)
        pack.size = size
        pack.data = pb_pack_alloc(size, &pack.home)
        if pack.data == NULL:
            raise MemoryError(f"cannot pack a constant operand of {spec.k} x {spec.n} ({size} bytes)")
        library.pack(spec.dtype, spec.k, spec.n, source, spec.row_stride, spec.col_stride, pack.data)
    reference = owners.get(id(owner))
    if reference is None or reference() is not owner:
        reference = owners[id(owner)] = _OwnerRef(owner, _drop_packs)
        reference.address, reference.keys = id(owner), []
    reference.keys.append(key)
    packs[key] = pack
    if type(owner) is Frozen:
        (<Frozen>owner).let_go()
    return pack.data


def pack_operand(table, int dtype, int64_t k, int64_t n, array, int64_t offset, int64_t row_stride, int64_t col_stride):
    """(layout, bytes) of a packed operand by the library behind a capsule "prebake.stencils", as `find_pack` makes it.

    offset, strides: in bytes, inside the array's memory. Raises ValueError for an operand that does not lie there.
    """
    cdef pb_stencil_table *found = <pb_stencil_table *>PyCapsule_GetPointer(table, "prebake.stencils")
    cdef Py_buffer view
    cdef char *target
    if found.library.abi_version != PB_ABI_VERSION or dtype not in PRODUCT_DTYPES.values() or k < 1 or n < 1:
        raise ValueError("no operand that this library packs")
    packed = bytearray(found.library.pack_bytes(dtype, k, n))
    target = packed
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    try:
        ends = [offset + i * row_stride + j * col_stride for i in (0, k - 1) for j in (0, n - 1)]
        if min(ends) < 0 or max(ends) + (8 if dtype == 1 else 4) > view.len:
            raise ValueError("the operand does not lie inside its array")
        found.library.pack(dtype, k, n, <char *>view.buf + offset, row_stride, col_stride, target)
    finally:
        PyBuffer_Release(&view)
    return (<bytes>found.library.layout).decode(), packed


def pack_layout(table):
    """Name of the pack layout of the library behind a capsule "prebake.stencils"."""
    return (<bytes>(<pb_stencil_table *>PyCapsule_GetPointer(table, "prebake.stencils")).library.layout).decode()


# --- settings -----------------------------------------------------------------------------------------------------------

def set_result_pool(size_bytes):
    """Keep at most this many bytes of dropped results for the next ones."""
    pb_pool_trim(size_bytes)


def result_pool_bytes():
    """Bytes kept for results at this moment."""
    return pb_pool_held


def clear_memory():
    """Give arenas and pooled results back to the system."""
    cdef size_t none = 0
    pb_arena_clear()
    from ..options import effective
    pb_pool_trim(none)
    pb_pool_trim(effective({})["result_pool_bytes"])


def changing_view(array):
    """A view of a read-only array that claims to be writable, for the planner's eyes: not to be taken as a constant."""
    return pb_changing_view(<PyObject *>array)
