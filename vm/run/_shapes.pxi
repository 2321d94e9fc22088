# Counts for each shape of a plan, and the choice of a kernel by extents.

cdef struct ShapeSlot:
    int64_t count     # calls that this plan served
    int64_t missed    # of these, calls that a prebuilt kernel should have served
    int64_t total_ns  # of the timed calls
    int64_t timed
    int64_t last_ns   # the last timed call
    int32_t reason    # of the last miss, an index into the function's own reasons


cdef class ShapeTable:
    """Extents of a plan's symbols -> counts. Bounded: what no longer fits is counted in `other`."""

    cdef int n_keys
    cdef int64_t capacity, used, limit
    cdef int64_t *keys
    cdef ShapeSlot *slots
    cdef ShapeSlot overflow
    cdef int64_t last

    def __cinit__(self, int n_keys, int64_t limit):
        self.n_keys = n_keys
        self.limit = limit
        self.last = -1
        memset(&self.overflow, 0, sizeof(ShapeSlot))
        self.allocate(8)

    def __dealloc__(self):
        free(self.keys)
        free(self.slots)

    cdef int allocate(self, int64_t capacity) except -1:
        self.keys = <int64_t *>malloc(capacity * max(self.n_keys, 1) * sizeof(int64_t))
        self.slots = <ShapeSlot *>calloc(capacity, sizeof(ShapeSlot))
        if self.keys == NULL or self.slots == NULL:
            raise MemoryError("no memory for shape counts")
        self.capacity = capacity
        return 0

    cdef int64_t probe(self, const int64_t *key) noexcept:
        # index of the slot that holds the key, or of the empty slot where it belongs
        cdef uint64_t h = 0x9E3779B97F4A7C15u
        cdef int i
        cdef int64_t at
        for i in range(self.n_keys):
            h = (h ^ <uint64_t>key[i]) * 0xBF58476D1CE4E5B9u
            h ^= h >> 29
        at = <int64_t>(h & <uint64_t>(self.capacity - 1))
        while self.slots[at].count != 0 and memcmp(self.keys + at * self.n_keys, key, self.n_keys * sizeof(int64_t)):
            at = (at + 1) & (self.capacity - 1)
        return at

    cdef ShapeSlot *find(self, const int64_t *key) noexcept:
        cdef int64_t at
        if self.last >= 0 and memcmp(self.keys + self.last * self.n_keys, key, self.n_keys * sizeof(int64_t)) == 0:
            return &self.slots[self.last]
        at = self.probe(key)
        if self.slots[at].count == 0:
            if self.used >= self.limit:
                return &self.overflow
            if self.used * 2 >= self.capacity:
                if not self.grow():
                    return &self.overflow
                at = self.probe(key)
            self.used += 1
            memcpy(self.keys + at * self.n_keys, key, self.n_keys * sizeof(int64_t))
        self.last = at
        return &self.slots[at]

    cdef bint grow(self) noexcept:
        cdef int64_t *keys = self.keys
        cdef ShapeSlot *slots = self.slots
        cdef int64_t capacity = self.capacity, i, at
        cdef int64_t *new_keys = <int64_t *>malloc(capacity * 2 * max(self.n_keys, 1) * sizeof(int64_t))
        cdef ShapeSlot *new_slots = <ShapeSlot *>calloc(capacity * 2, sizeof(ShapeSlot))
        if new_keys == NULL or new_slots == NULL:
            free(new_keys)
            free(new_slots)
            return False
        self.keys, self.slots, self.capacity, self.last = new_keys, new_slots, capacity * 2, -1
        for i in range(capacity):
            if slots[i].count:
                at = self.probe(keys + i * self.n_keys)
                memcpy(self.keys + at * self.n_keys, keys + i * self.n_keys, self.n_keys * sizeof(int64_t))
                self.slots[at] = slots[i]
        free(keys)
        free(slots)
        return True

    def items(self):
        """[(extents, calls, missed calls, reason index, nanoseconds, timed calls), ...] in no order."""
        cdef int64_t i
        cdef int j
        found = []
        for i in range(self.capacity):
            if self.slots[i].count:
                extents = tuple([self.keys[i * self.n_keys + j] for j in range(self.n_keys)])
                slot = self.slots[i]
                found.append((extents, slot.count, slot.missed, slot.reason, slot.total_ns, slot.timed))
        return found

    def other(self):
        """(calls, missed calls) whose shapes did not fit."""
        return self.overflow.count, self.overflow.missed


cdef class Chooser:
    """Which kernels' buckets hold for given extents: one binary search a symbol, bit sets and-ed.

    Made from [(register, [(lo, hi) or None for each kernel])]: the cost grows with the symbols, not with the kernels.
    """

    cdef int n_symbols, n_words, n_kernels
    cdef int *registers
    cdef int64_t **edges       # ascending lower ends of the pieces; piece 0 begins at minus infinity
    cdef int *n_edges
    cdef uint64_t **pieces     # (n_edges + 1) x n_words bits
    cdef uint64_t **rows       # scratch of `next`, which runs no Python code

    def __cinit__(self, int n_kernels, list symbols):
        cdef int s, k, e
        self.n_kernels = n_kernels
        self.n_words = (n_kernels + 63) // 64
        self.n_symbols = len(symbols)
        self.registers = <int *>calloc(max(self.n_symbols, 1), sizeof(int))
        self.n_edges = <int *>calloc(max(self.n_symbols, 1), sizeof(int))
        self.edges = <int64_t **>calloc(max(self.n_symbols, 1), sizeof(void *))
        self.pieces = <uint64_t **>calloc(max(self.n_symbols, 1), sizeof(void *))
        self.rows = <uint64_t **>calloc(max(self.n_symbols, 1), sizeof(void *))
        if not (self.registers and self.n_edges and self.edges and self.pieces and self.rows):
            raise MemoryError("no memory for bucket tables")
        for s, (register, intervals) in enumerate(symbols):
            self.registers[s] = register
            cuts = sorted({edge for interval in intervals if interval is not None
                           for edge in (interval[0], interval[1] + 1)})
            self.n_edges[s] = len(cuts)
            self.edges[s] = <int64_t *>calloc(max(len(cuts), 1), sizeof(int64_t))
            self.pieces[s] = <uint64_t *>calloc((len(cuts) + 1) * max(self.n_words, 1), sizeof(uint64_t))
            if self.edges[s] == NULL or self.pieces[s] == NULL:
                raise MemoryError("no memory for bucket tables")
            for e, cut in enumerate(cuts):
                self.edges[s][e] = cut
            for e in range(len(cuts) + 1):
                for k in range(n_kernels):
                    interval = intervals[k]
                    if interval is None or (e > 0 and interval[0] <= cuts[e - 1] <= interval[1]):
                        self.pieces[s][e * self.n_words + k // 64] |= <uint64_t>1 << (k % 64)

    def __dealloc__(self):
        cdef int s
        for s in range(self.n_symbols):
            if self.edges != NULL:
                free(self.edges[s])
            if self.pieces != NULL:
                free(self.pieces[s])
        free(self.registers)
        free(self.n_edges)
        free(self.edges)
        free(self.pieces)
        free(self.rows)

    cdef int next(self, const pb_reg *regs, int start) noexcept:
        # the first kernel from `start` on whose bucket holds, or -1
        cdef int s, w, lo, hi, middle
        cdef uint64_t bits
        cdef int64_t value
        if start >= self.n_kernels:
            return -1
        for s in range(self.n_symbols):
            value = regs[self.registers[s]].i
            lo, hi = 0, self.n_edges[s]
            while lo < hi:
                middle = (lo + hi) // 2
                if self.edges[s][middle] <= value:
                    lo = middle + 1
                else:
                    hi = middle
            self.rows[s] = self.pieces[s] + lo * self.n_words
        for w in range(start // 64, self.n_words):
            bits = ~<uint64_t>0
            if w == start // 64:
                bits <<= start % 64
            if (w + 1) * 64 > self.n_kernels:
                bits &= ~<uint64_t>0 >> ((w + 1) * 64 - self.n_kernels)
            for s in range(self.n_symbols):
                bits &= self.rows[s][w]
            if bits:
                return w * 64 + count_trailing_zeros(bits)
        return -1


def choose_all(n_kernels, symbols, values):
    """Every kernel whose bucket holds, in order (the choice made by `serve`, for tests)."""
    cdef Chooser chooser = Chooser(n_kernels, list(symbols))
    cdef pb_reg regs[64]
    cdef int at = -1
    for i, value in enumerate(values[:64]):
        regs[<int>i].i = value
    found = []
    while True:
        at = chooser.next(regs, at + 1)
        if at < 0:
            return found
        found.append(at)


cdef extern from *:
    int count_trailing_zeros "__builtin_ctzll"(unsigned long long) nogil
