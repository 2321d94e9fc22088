/* Registers of the tape: one operation of pb_scalar.h as pb_scalars[row](dst, a, b, c), rows as in pb_blocks; loads, stores.
 *
 * A register holds i32 sign-extended and bool as 0 or 1 in all 64 bits, f32 in the low half.
 */
#ifndef PB_REGISTER_H
#define PB_REGISTER_H
#include "pb_abi.h"
#include "pb_scalar.h"

typedef void (*pb_scalar_fn)(pb_reg *dst, const pb_reg *a, const pb_reg *b, const pb_reg *c);

#define PB_GET_bool(r) ((pb_bool)(r)->i)
#define PB_GET_i32(r) ((pb_i32)(r)->i)
#define PB_GET_i64(r) ((r)->i)
#define PB_GET_f32(r) ((r)->f)
#define PB_GET_f64(r) ((r)->d)
#define PB_SET_bool(r, x) ((r)->i = (x))
#define PB_SET_i32(r, x) ((r)->i = (x))
#define PB_SET_i64(r, x) ((r)->i = (x))
#define PB_SET_f32(r, x) ((r)->i = (int64_t)pb_bits_f32(x))
#define PB_SET_f64(r, x) ((r)->d = (x))

#define PB_SCALAR_HEAD(name)                                                                                            \
    static void name(pb_reg *dst, const pb_reg *a, const pb_reg *b, const pb_reg *c) {                                  \
        (void)b, (void)c;
#define PB_SCALAR1(op, T, R)                                                                                            \
    PB_SCALAR_HEAD(pb_scalar_##op##_##T) PB_SET_##R(dst, pb_##op##_##T(PB_GET_##T(a))); }
#define PB_SCALAR2(op, T, R)                                                                                            \
    PB_SCALAR_HEAD(pb_scalar_##op##_##T) PB_SET_##R(dst, pb_##op##_##T(PB_GET_##T(a), PB_GET_##T(b))); }
#define PB_SCALAR3(op, T, R)                                                                                            \
    PB_SCALAR_HEAD(pb_scalar_##op##_##T)                                                                                \
    PB_SET_##R(dst, pb_##op##_##T(PB_GET_bool(a), PB_GET_##T(b), PB_GET_##T(c))); }
#define PB_SCALAR_CAST(F, T)                                                                                            \
    PB_SCALAR_HEAD(pb_scalar_cast_##F##_##T) PB_SET_##T(dst, pb_cast_##F##_##T(PB_GET_##F(a))); }
#define PB_SCALAR_ODD PB_SCALAR_HEAD(pb_scalar_odd) PB_SET_f32(dst, pb_odd_f32(PB_GET_f64(a))); }

/* One element of memory dtype `memory`, to or from a register of its native dtype. */
#define PB_EACH_MEMORY(X)                                                                                               \
    X(bool, bool) X(i8, i32) X(i16, i32) X(i32, i32) X(i64, i64) X(u8, i32) X(u16, i32) X(u32, i64) X(f16, f32)         \
    X(bf16, f32) X(f32, f32) X(f64, f64)
#define PB_LOAD_CASE(M, T) case PB_M_##M: PB_SET_##T(r, pb_load_##M(p)); break;
#define PB_STORE_CASE(M, T) case PB_M_##M: pb_store_##M(p, PB_GET_##T(r)); break;
static inline void pb_load_register(pb_reg *r, int32_t memory, const char *p) {
    switch (memory) { PB_EACH_MEMORY(PB_LOAD_CASE) }
}
static inline void pb_store_register(const pb_reg *r, int32_t memory, char *p) {
    switch (memory) { PB_EACH_MEMORY(PB_STORE_CASE) }
}
#endif
