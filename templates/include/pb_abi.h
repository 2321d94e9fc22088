/* The one calling convention between the dispatcher and whatever runs a plan: the tape engine and every bundle kernel.
 *
 * A plan is code over a register file. The dispatcher fills the registers that describe the arguments (data pointers,
 * extents, byte strides, scalars), calls `bind` (integer program: guards, derived extents, offsets, arena size), then
 * allocates results and arena, and calls `run` without the GIL.
 */
#ifndef PB_ABI_H
#define PB_ABI_H
#include <stdint.h>

#define PB_ABI_VERSION 1

typedef union {
    int64_t i; /* i64, i32 (sign-extended), bool (0/1) */
    double d;  /* f64 */
    float f;   /* f32 */
    char *p;   /* pointers */
} pb_reg;

typedef struct pb_frame {
    pb_reg *r;                 /* register file; r[0].p is the arena (64-byte aligned) when `run` starts */
    const void *const *packs;  /* packed constant operands by slot */
    int32_t trap_code;         /* PB_TRAP_*: set when `run` returns non-zero */
    int32_t trap_pos;          /* instruction index in the Program, for the source line */
    void *owner;               /* the dispatcher's own state, for `alloc` */
    char *(*alloc)(struct pb_frame *, int32_t output); /* result whose shape is known late; takes the GIL; NULL: memory */
} pb_frame;

/* 0: every guard holds. n > 0: guard n (1-based, in plan order) does not; nothing was changed. */
typedef int (*pb_bind_fn)(const void *plan, pb_frame *frame);
/* 0: done. 1: trapped, see trap_code. */
typedef int (*pb_run_fn)(const void *plan, pb_frame *frame);

enum {
    PB_TRAP_NONE = 0,
    PB_TRAP_INDEX = 1,          /* IndexError: index out of bounds */
    PB_TRAP_ZERO_DIVISION = 2,  /* ZeroDivisionError of Python scalars */
    PB_TRAP_OVERFLOW = 3,       /* OverflowError */
    PB_TRAP_VALUE = 4,          /* ValueError: shapes that do not fit */
    PB_TRAP_MEMORY = 5,         /* MemoryError */
    PB_TRAP_INTERPRET = 6       /* nothing observable was changed: the interpreter must run this call */
};

/* One kernel of a bundle, as exported in its capsule table. */
typedef struct {
    const char *name;
    pb_bind_fn bind;
    pb_run_fn run;
} pb_kernel;

typedef struct {
    int32_t abi_version, n_kernels;
    const pb_kernel *kernels;
} pb_kernel_table;
#endif
