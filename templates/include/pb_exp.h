/* exp, tanh and erf of f32, written once for numbers and for vectors of them: pb_math.h and pb_vector.h each include this, with
 *
 *   PB_F(name)           the function's name
 *   PB_T, PB_C(c)        the type, and a constant of it
 *   PB_FMA(a, b, c)      a * b + c, fused where the level has it
 *   PB_LESSER(a, b)      a < b ? a : b, so b where one of them is NaN
 *   PB_GREATER(a, b)     a > b ? a : b
 *   PB_SHIFTED(x, n)     the bits of x moved n places up
 *   PB_MASKED(x, bits)   those of its bits; PB_WITH(x, y) the bits of both
 *
 * Neither chooses between results: on extreme arguments the arithmetic itself gives 0, infinity or 1.
 * Source: minimax fits of our own.
 */

/* exp(r) * 2**k * 2**k with x = 2 * k * ln(2) + r: no factor leaves the normal numbers, the last product rounds subnormals. */
PB_INLINE PB_T PB_F(exp)(PB_T x) {
    x = PB_LESSER(PB_C(176.0f), PB_GREATER(PB_C(-174.0f), x));
    PB_T shifted = PB_FMA(x, PB_C(0.72134752f), PB_C(PB_BIASED_f32)), k = shifted - PB_C(PB_BIASED_f32);
    PB_T r = PB_FMA(k, PB_C(4.2438888e-4f), PB_FMA(k, PB_C(-1.38671875f), x)), scale = PB_SHIFTED(shifted, 23);
    PB_T p = PB_FMA(PB_C(1.962974929e-4f), r, PB_C(1.410477795e-3f));
    p = PB_FMA(p, r, PB_C(8.335934952e-3f)), p = PB_FMA(p, r, PB_C(4.166122898e-2f));
    p = PB_FMA(p, r, PB_C(1.666661799e-1f)), p = PB_FMA(p, r, PB_C(5.000003576e-1f));
    p = PB_FMA(p, r, PB_C(1.0f)), p = PB_FMA(p, r, PB_C(1.0f));
    return p * scale * scale;
}

/* t / (t + 1) with t = expm1(2 * |x|) / 2, which is 2**n * u + (2**n - 1) / 2 with u = expm1(2 * h) / 2, h = |x| - n * ln(2) / 2:
 * one constant for ln(2) will do, since the quotient forgets errors of t as t grows. */
PB_INLINE PB_T PB_F(tanh)(PB_T x) {
    PB_T a = PB_LESSER(PB_C(10.0f), PB_MASKED(x, 0x7fffffff));
    PB_T shifted = PB_FMA(a, PB_C(2.88539008f), PB_C(PB_BIASED_f32)), n = shifted - PB_C(PB_BIASED_f32);
    PB_T h = PB_FMA(n, PB_C(-0.34657359f), a), h2 = h * h, scale = PB_SHIFTED(shifted, 23);
    PB_T high = PB_FMA(PB_C(1.338604391e-1f), h, PB_C(3.333394825e-1f));
    PB_T low = PB_FMA(PB_C(6.666618586e-1f), h, PB_C(9.999999404e-1f));
    PB_T u = PB_FMA(PB_FMA(PB_FMA(PB_C(4.438634217e-2f), h2, high), h2, low), h2, h);
    PB_T t = PB_FMA(scale, u, PB_FMA(PB_C(0.5f), scale, PB_C(-0.5f)));
    return PB_WITH(t / (t + PB_C(1.0f)), PB_MASKED(x, 0x80000000));
}

/* 1 - 2**w with w = log2(erfc(|x|)), a polynomial times |x|: minimax to the relative error of erf, up to where erf rounds to 1. */
PB_INLINE PB_T PB_F(erf)(PB_T x) {
    PB_T t = PB_LESSER(PB_C(3.93f), PB_MASKED(x, 0x7fffffff));
    PB_T t2 = t * t, odd = PB_FMA(PB_C(-1.6211070761e-4f), t2, PB_C(-2.3674541153e-3f));
    PB_T even = PB_FMA(PB_C(1.2395311387e-5f), t2, PB_C(8.8918069378e-4f));
    odd = PB_FMA(odd, t2, PB_C(2.7646021917e-2f)), even = PB_FMA(even, t2, PB_C(1.9970393623e-4f));
    odd = PB_FMA(odd, t2, PB_C(-9.1844737530e-1f)), even = PB_FMA(even, t2, PB_C(-1.4827997983e-1f));
    PB_T w = PB_FMA(odd, t, PB_FMA(even, t2, PB_C(-1.6279070377f))) * t;
    PB_T shifted = w + PB_C(PB_BIASED_f32), r = w - (shifted - PB_C(PB_BIASED_f32)), scale = PB_SHIFTED(shifted, 23);
    PB_T high = PB_FMA(PB_C(1.5141080075e-4f), r, PB_C(1.3386027422e-3f));
    PB_T mid = PB_FMA(PB_C(9.6190562472e-3f), r, PB_C(5.5503703654e-2f)), r2 = r * r;
    PB_T p = PB_FMA(PB_FMA(PB_FMA(high, r2, mid), r, PB_C(2.4022644758e-1f)), r, PB_C(6.9314718246e-1f));
    PB_T y = PB_FMA(scale, p * r, scale - PB_C(1.0f));
    return PB_WITH(PB_MASKED(y, 0x7fffffff), PB_MASKED(x, 0x80000000));
}

#undef PB_F
#undef PB_T
#undef PB_C
#undef PB_FMA
#undef PB_LESSER
#undef PB_GREATER
#undef PB_SHIFTED
#undef PB_MASKED
#undef PB_WITH
