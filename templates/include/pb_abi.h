/* The one calling convention between the dispatcher and whatever runs a plan: the tape engine and every bundle kernel.
 *
 * A plan is code over a register file. The dispatcher fills the registers that describe the arguments (data pointers,
 * extents, byte strides, scalars), calls `bind` (integer program: guards, derived extents, offsets, arena size), then
 * allocates results and arena, and calls `run` without the GIL.
 */
#ifndef PB_ABI_H
#define PB_ABI_H
#include <stdint.h>

#define PB_ABI_VERSION 3

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
    /* Call-out `site` of the plan: takes the GIL, reads its operands from `r`, calls the library, and writes addresses,
     * extents and scalars of what it made into `r`. 0: done; else the trap is set. */
    int (*call)(struct pb_frame *, int32_t site);
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
    PB_TRAP_INTERPRET = 6,      /* nothing observable was changed: the interpreter must run this call */
    PB_TRAP_RAISE = 7,          /* what the program raises at that position */
    PB_TRAP_RAISED = 8          /* a call-out raised: the dispatcher holds the exception */
};

/* Packing of a constant operand (k, n) into the panels of this library's own CPU level. dtype: 0 f32, 1 f64, 2 and 3 f32
 * that is rounded to bfloat16 and float16. The layout
 * belongs to the library: a pack may only be read by code of the library whose `pack` wrote it, or one with equal `layout`. */
typedef int64_t (*pb_pack_bytes_fn)(int32_t dtype, int64_t k, int64_t n);
typedef void (*pb_pack_fn)(int32_t dtype, int64_t k, int64_t n, const char *src, int64_t row_stride_bytes,
                           int64_t col_stride_bytes, void *dst);

typedef struct {
    int32_t abi_version;
    const char *level;  /* "x86-64-v2", "x86-64-v3", "x86-64-v4", "generic" */
    const char *layout; /* names the pack layout, e.g. "f32p16-f64p8" */
    pb_pack_bytes_fn pack_bytes;
    pb_pack_fn pack;
} pb_library;

/* The stencil library in prebake's wheel, one for each CPU level: module prebake.templates._stencils_<v2|v3|v4|generic>,
 * capsule attribute `table`, capsule name "prebake.stencils". `tape_*` take a pb_tape (pb_tape.h) as plan. */
typedef struct {
    pb_library library;
    pb_bind_fn tape_bind;
    pb_run_fn tape_run;
} pb_stencil_table;

/* A bundle's shared object: module attribute `table`, capsule name "prebake.kernels". */
typedef struct {
    const char *name;
    pb_bind_fn bind; /* plan argument: NULL */
    pb_run_fn run;
} pb_kernel;

typedef struct {
    pb_library library;
    int32_t n_kernels;
    const pb_kernel *kernels;
    const char *records; /* digest of the manifest's functions that the kernels were made for, in hexadecimal digits */
} pb_kernel_table;
#endif
