/* The nest engine's words and run-time structures; pb_nest.h tells how they are used.
 *
 * Words of a nest (vm/run/tape_nest.py writes them), registers by number, -1 for none, strides one register an axis:
 *   pb_nest_head; axes: registers
 *   inputs  view: 0 dtype memory base offset strides...   scalar: 1 dtype register   iota: 2 dtype axis
 *   ops     0 stencil dtype n_args a b c scratch
 *           1 0 dtype 0 -1 -1 -1 scratch memory position n_indexes base offset strides... (slot extent stride)...   [gather]
 *   outs    reduction slot dtype memory base offset mask direct position n_indexes strides... (slot extent stride)...
 * A sum with a mask adds up the elements under it; a sum of a bool slot counts, into i64 or f64 memory.
 * `scratch` is the buffer that the operation may write; a buffer is reused after the last use of its slot. `direct`: no later
 * operation and no other output reads what an in-place output may have overwritten.
 */
#ifndef PB_NEST_TYPES_H
#define PB_NEST_TYPES_H
#include "pb_abi.h"
#include "pb_masked.h"
#include "pb_strip.h"

enum { PB_IN_VIEW = 0, PB_IN_SCALAR = 1, PB_IN_IOTA = 2 };
enum {
    PB_NEST_KEEP_ORDER = 1, /* scatter: the last of equal indexes wins, in the program's order; compress appends in it */
    PB_NEST_STREAM = 2,     /* at most one operation, native views, nothing reduced or indexed */
    PB_NEST_GATHER = 4,
    PB_NEST_STRIPS = 8,     /* operations of one dtype that the accumulator machine has, native views, nothing reduced or indexed */
    PB_NEST_ROWS = 16       /* the same over lanes of one width, or reductions of them: what pb_nest_rows.h can do, strides permitting */
};
enum {
    PB_ACCUMULATORS = 1024, /* kept elements that one pass accumulates */
    PB_SHORT_ROW = 768,     /* bytes: as long as joining rows copies less a row, it is cheaper than a tile for each of them */
    PB_LONG_ROW = 256,      /* rows of this length are worth a tile of their own, when joining them costs copies */
    PB_SCRATCH_BYTES = 49152
};

typedef struct {
    int32_t words;      /* of the whole nest */
    int32_t n_axes, n_in, n_ops, n_out;
    int32_t n_operands; /* views (inputs, gathers, outputs) and iotas */
    int32_t n_scratch;  /* buffers of `block` elements for results of operations */
    int32_t scratch_item;
    int32_t block;
    int32_t flags;
    int32_t mask;       /* slot without which no output changes: tiles where it is false end early; else -1 */
    int32_t arg_axis;   /* axis of argmax and argmin, else -1 */
    uint32_t reduced;   /* mask of the axes that reducing outputs reduce */
} pb_nest_head;

/* Whatever has an address at each point; for an iota the "address" is the value. */
typedef struct {
    int64_t at;
    int64_t *s; /* byte stride of each axis */
    int32_t item;
    uint8_t memory, form, own_tile; /* own_tile 0: reducing output, which is not walked with the tile */
} pb_operand;
enum { PB_FORM_SCALAR, PB_FORM_FLAT, PB_FORM_STRIDED };

static inline char *pb_here(const pb_operand *x) { return (char *)x->at; }

typedef struct {
    char *p;         /* the value of the tile: n elements, or one if `scalar` */
    char *v;         /* n elements even so, when `splat` */
    char **from;     /* where p is found: in the slot itself, or an operand's `at` that p follows from tile to tile */
    uint8_t dtype, scalar, splat, fixed; /* fixed: the same scalar in every tile */
} pb_slot;

typedef struct {
    const int32_t *w;
    pb_operand *x;
    uint8_t act;
    uint8_t moving;   /* the copy goes straight to an output: it is made again for each tile */
    const char *last; /* source of what the scratch holds already */
    int64_t last_rows, *offsets;
} pb_in;
enum { PB_ACT_NONE, PB_ACT_DIRECT, PB_ACT_LOAD, PB_ACT_LOAD_ONE, PB_ACT_IOTA, PB_ACT_IOTA_ONE };

typedef struct {
    const int32_t *w;
    pb_block_fn fn;
    char **a, **b, **c;
    pb_slot *out;
    pb_operand *x; /* gather */
    int64_t *offsets, *places;
    char *raw;
    pb_micro *list;  /* of the run that ends with this operation, else NULL */
    uint8_t act;
    uint8_t variant; /* of the stencil: bit 0, the second operand is one scalar; bit 1, the first */
    uint8_t in_run;  /* done by a list */
    int32_t n_list;  /* entries of the list before its end */
} pb_op;

typedef struct {
    const int32_t *w;
    pb_operand *x;
    pb_slot *slot, *mask;
    uint8_t act;
    int64_t *offsets, *places, index; /* index: of the extremum so far; elements that were compressed so far */
    char *raw, *acc;
} pb_out;
enum { PB_OUT_DIRECT, PB_OUT_STORE, PB_OUT_SPLAT, PB_OUT_INDEXED, PB_OUT_REDUCE, PB_OUT_BLEND, PB_OUT_COMPRESS };

typedef struct {
    pb_frame *frame;
    const pb_nest_head *h;
    int32_t d;
    int64_t *e;      /* extents */
    uint8_t *red;    /* whether the axis is reduced */
    pb_operand *x;   /* n_operands of them, then the position in the accumulators */
    pb_slot *slots;
    pb_reg *cells;   /* a scalar for each slot */
    pb_in *in;
    pb_op *op;
    pb_out *out;
    char *stack;     /* PB_SCRATCH_BYTES */
} pb_nest;

/* A tile's axes as runs of kept or reduced ones, outermost first: how pb_reduce_tile goes about it. */
typedef struct {
    int32_t n_groups, kept_d; /* kept_d: kept axes of the tile, as extents and strides below */
    int64_t *size, *kept_n;
    uint8_t *is_reduced;
    int64_t rest;             /* elements of the first group for each element of the chunked axis */
    char *buffer[2];
    int complete, is_single;  /* is_single: one accumulator */
} pb_groups;

/* The type in which an output is reduced and accumulated: counts of booleans are i64. */
static inline int32_t pb_reduced_dtype(const int32_t *w) { return w[0] == PB_R_sum && w[2] == PB_N_bool ? PB_N_i64 : w[2]; }

static int pb_trap(pb_frame *f, int32_t code, int32_t position) {
    f->trap_code = code, f->trap_pos = position;
    return 1;
}
#endif
