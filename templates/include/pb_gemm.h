/* One product without batch axes: chooses the way by shape and strides, walks blocks of k, blocks of rows and panels.
 *
 * A template over PBP_REAL, PBP_NAME, PBP_LANES (see pb_product.h).
 */

#define PBP_SIZE ((int64_t)sizeof(PBP_REAL))

PBP_INLINE PBP_REAL PBP_NAME(finish)(PBP_REAL x, const pb_gemm *g, int64_t j) {
    if (g->bias) x += *(const PBP_ELEM *)(g->bias + j * g->bias_s);
    return g->relu && x < 0 ? 0 : x;
}

/* Any strides, element by element: tiny products and k = 0. */
PBP_NOINLINE void PBP_NAME(gemm_scalar)(const pb_gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const char *a = g->a + i * g->a_rs, *b = g->b + j * g->b_cs;
            PBP_REAL sum = 0;
            for (int64_t k = 0; k < g->k; k++, a += g->a_cs, b += g->b_rs)
                sum = PBP_FMA1(*(const PBP_ELEM *)a, *(const PBP_ELEM *)b, sum);
            *(PBP_ELEM *)(g->c + i * g->c_rs + j * g->c_cs) = PBP_NAME(finish)(sum, g, j);
        }
}

/* Both operands contiguous along k: dot products, four at a time. */
PBP_NOINLINE void PBP_NAME(gemm_dots)(const pb_gemm *g) {
    PBP_REAL out[16];
    for (int64_t j = 0; j < g->n; j += PBP_NARROW) {
        const int cols = (int)pb_min_i64(g->n - j, PBP_NARROW);
        const int rows = cols == 1 ? 4 : 2;
        const PBP_NAME(dot_fn) many = PBP_NAME(dots_many)[cols - 1], one = PBP_NAME(dots_1)[cols - 1];
        for (int64_t i = 0; i < g->m;) {
            const int r = g->m - i >= rows ? rows : 1;
            (r == rows ? many : one)(g->k, g->a + i * g->a_rs, g->a_rs, g->b + j * g->b_cs, g->b_cs, out);
            for (int x = 0; x < r; x++, i++)
                for (int y = 0; y < cols; y++)
                    *(PBP_ELEM *)(g->c + i * g->c_rs + (j + y) * g->c_cs) =
                        PBP_NAME(finish)(out[x * cols + y], g, j + y);
        }
    }
}

/* n <= PBP_NARROW: bring both operands into the form that dots want. False: not worth it or not possible. */
PBP_NOINLINE int PBP_NAME(gemm_narrow)(const pb_gemm *g) {
    pb_gemm d = *g;
    if (g->b_packed) {
        d.b_cs = PBP_NAME(narrow_stride)(g->k);
        d.b_rs = PBP_SIZE;
    } else if (g->b_rs != PBP_SIZE) {
        if (g->n * g->k * PBP_SIZE > PBP_SCRATCH_B) return 0;
        PBP_ELEM *to = (PBP_ELEM *)pb_scratch.b;
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t k = 0; k < g->k; k++) *to++ = *(const PBP_ELEM *)(g->b + j * g->b_cs + k * g->b_rs);
        d.b = pb_scratch.b;
        d.b_rs = PBP_SIZE;
        d.b_cs = g->k * PBP_SIZE;
    }
    if (g->a_cs == PBP_SIZE) {
        PBP_NAME(gemm_dots)(&d);
        return 1;
    }
    const int64_t fit = PBP_SCRATCH_A / (PBP_SIZE * g->k);
    if (fit == 0) {
        if (!g->b_packed) return 0;
        PBP_NAME(gemm_scalar)(&d);
        return 1;
    }
    for (int64_t i = 0; i < g->m; i += fit) {
        const int64_t rows = pb_min_i64(g->m - i, fit);
        for (int64_t k = 0; k < g->k; k++)
            for (int64_t r = 0; r < rows; r++)
                ((PBP_ELEM *)pb_scratch.a)[r * g->k + k] = *(const PBP_ELEM *)(g->a + (i + r) * g->a_rs + k * g->a_cs);
        d.a = pb_scratch.a;
        d.a_rs = g->k * PBP_SIZE;
        d.m = rows;
        d.c = g->c + i * g->c_rs;
        PBP_NAME(gemm_dots)(&d);
    }
    return 1;
}

/* Rows [0, m) against one group of panels; cols < the tile's width, or a column stride: through a buffer. */
PBP_INLINE void PBP_NAME(gemm_rows)(const pb_tile_fn *tiles, pb_tile *t, int64_t m, int64_t a_tile, const char *a,
                                    char *c, int64_t c_rs, int64_t c_cs, int64_t cols, int direct, int spread) {
    const int64_t count = pb_ceil_div(m, PBP_TILE_ROWS), base = m / count;
    int64_t extra = m % count;
    const char *ahead = t->ahead;
    const int64_t share = t->ahead_step / count; /* each tile fetches its part of the next panel */
    if (spread) t->ahead_step = pb_ceil_div(t->ahead_step, count);
    PBP_REAL buffer[PBP_TILE_ROWS * PBP_PANEL] __attribute__((aligned(64)));
    for (int64_t i = 0, rows; i < m; i += rows) {
        rows = base + (extra-- > 0);
        t->ahead = ahead;
        if (spread) ahead += share * t->k;
        t->a = a;
        if (a_tile) { /* copied tiles: [k][rows] */
            t->a_cs = rows * PBP_SIZE;
            a += a_tile * rows;
        } else {
            a += t->a_rs * rows;
        }
        if (direct) {
            t->c = c;
            t->c_rs = c_rs;
            tiles[rows - 1](t);
        } else {
            t->c = (char *)buffer;
            t->c_rs = PBP_PANEL_ROW;
            if (t->resume)
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t j = 0; j < cols; j++)
                        buffer[r * PBP_PANEL + j] = *(const PBP_ELEM *)(c + r * c_rs + j * c_cs);
            tiles[rows - 1](t);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t j = 0; j < cols; j++)
                    *(PBP_ELEM *)(c + r * c_rs + j * c_cs) = buffer[r * PBP_PANEL + j];
        }
        c += c_rs * rows;
    }
}

/* The general way: tiles over panels, which are packed, used in place or packed on the fly. */
PBP_NOINLINE void PBP_NAME(gemm_tiles)(const pb_gemm *g) {
    const int64_t m = g->m, n = g->n, k = g->k;
    const int in_place = !g->b_packed && g->b_cs == PBP_SIZE && m <= 2 * PBP_TILE_ROWS && n >= PBP_PANEL;
    const int on_the_fly = !g->b_packed && !in_place;
    const int copy_a = g->a_cs != PBP_SIZE && m >= 2 * PBP_TILE_ROWS && n >= 2 * PBP_PANEL;
    int64_t block_k = k, block_m = m;
    if (on_the_fly || copy_a) {
        if (k > PBP_BLOCK_K) block_k = pb_ceil_div(k, pb_ceil_div(k, PBP_BLOCK_K));
    } else if (g->b_packed && k > PBP_LONG_K) {
        block_k = pb_ceil_div(k, pb_ceil_div(k, PBP_LONG_K));
    }
    if (copy_a) block_m = PBP_SCRATCH_A / (block_k * PBP_SIZE) / PBP_TILE_ROWS * PBP_TILE_ROWS;
    PBP_REAL bias[8 * PBP_LANES] __attribute__((aligned(64)));

    for (int64_t k0 = 0; k0 < k; k0 += block_k) {
        const int64_t kc = pb_min_i64(k - k0, block_k);
        const int last = k0 + kc == k;
        for (int64_t m0 = 0; m0 < m; m0 += block_m) {
            const int64_t mc = pb_min_i64(m - m0, block_m);
            const char *a = g->a + m0 * g->a_rs + k0 * g->a_cs;
            pb_tile t = {kc, a, g->a_rs, g->a_cs, 0, PBP_PANEL_ROW, 0, 0, 0, 0, 0, k0 > 0, 0, 0, 0, 0};
            if (copy_a) {
                const int64_t count = pb_ceil_div(mc, PBP_TILE_ROWS), base = mc / count;
                int64_t extra = mc % count;
                PBP_ELEM *to = (PBP_ELEM *)pb_scratch.a;
                for (int64_t i = 0, rows; i < mc; i += rows) {
                    rows = base + (extra-- > 0);
                    for (int64_t x = 0; x < kc; x++)
                        for (int64_t r = 0; r < rows; r++)
                            *to++ = *(const PBP_ELEM *)(a + (i + r) * g->a_rs + x * g->a_cs);
                }
                a = pb_scratch.a;
                t.a_rs = PBP_SIZE;
            }
            for (int64_t j = 0, width; j < n; j += width) {
                int64_t left = n - j, j0 = j;
                const pb_tile_fn *tiles = PBP_NAME(tiles_2);
                const pb_tile_fn four[1] = {PBP_NAME(tile_1x8)};
                width = PBP_PANEL;
                if (!on_the_fly && mc == 1 && left >= 4 * PBP_PANEL) {
                    width = 4 * PBP_PANEL;
                    tiles = four;
                } else if (!on_the_fly && mc <= PBP_PAIR_ROWS && left >= 2 * PBP_PANEL) {
                    width = 2 * PBP_PANEL;
                    tiles = PBP_NAME(tiles_4);
                } else if (left <= PBP_LANES) {
                    tiles = PBP_NAME(tiles_1);
                }
                if (g->b_packed) {
                    t.b = g->b + j * k * PBP_SIZE + k0 * PBP_PANEL_ROW;
                    t.b_ps = k * PBP_PANEL_ROW;
                } else if (in_place) {
                    if (left < PBP_PANEL) { /* the last panel begins earlier and repeats some columns */
                        j0 = n - PBP_PANEL;
                        left = PBP_PANEL;
                        tiles = PBP_NAME(tiles_2);
                    }
                    t.b = g->b + k0 * g->b_rs + j0 * PBP_SIZE;
                    t.b_rs = g->b_rs;
                    t.b_ps = PBP_PANEL_ROW;
                } else {
                    PBP_NAME(pack_panel)(kc, pb_min_i64(left, width), g->b + k0 * g->b_rs + j * g->b_cs, g->b_rs,
                                         g->b_cs, pb_scratch.b);
                    t.b = pb_scratch.b;
                }
                /* Prefetch: a single tile fetches its own panel and the start of the next; several share the next. */
                const int spread = g->b_packed && mc > PBP_TILE_ROWS;
                t.turn = kc;
                t.ahead = t.b;
                t.ahead_step = 0;
                if (spread) {
                    t.ahead = t.b + t.b_ps;
                    t.ahead_step = PBP_PANEL_ROW;
                } else if (g->b_packed) {
                    if (kc > PBP_AHEAD) t.turn = kc - PBP_AHEAD;
                    t.ahead = t.b + PBP_AHEAD * PBP_PANEL_ROW;
                    t.ahead_step = PBP_PANEL_ROW;
                    t.ahead_jump = t.b_ps - kc * PBP_PANEL_ROW;
                } else if (g->b_cs == PBP_SIZE) {
                    t.ahead = g->b + k0 * g->b_rs + (j + width) * PBP_SIZE;
                    t.ahead_step = g->b_rs;
                }
                const int64_t cols = pb_min_i64(left, width);
                const int full = cols == width || (tiles == PBP_NAME(tiles_1) && cols == PBP_LANES);
                if (last && g->bias) {
                    t.bias = g->bias + j0 * g->bias_s;
                    if (g->bias_s != PBP_SIZE || !full) {
                        for (int64_t x = 0; x < width; x++)
                            bias[x] = x < cols ? *(const PBP_ELEM *)(t.bias + x * g->bias_s) : 0;
                        t.bias = (const char *)bias;
                    }
                }
                t.relu = last && g->relu;
                char *c = g->c + m0 * g->c_rs + j0 * g->c_cs;
                if (full && g->c_cs == PBP_SIZE)
                    PBP_NAME(gemm_rows)(tiles, &t, mc, copy_a ? kc * PBP_SIZE : 0, a, c, g->c_rs, g->c_cs, cols, 1, spread);
                else
                    PBP_NAME(gemm_rows)(tiles, &t, mc, copy_a ? kc * PBP_SIZE : 0, a, c, g->c_rs, g->c_cs, cols, 0, spread);
            }
        }
    }
}

PBP_FUNCTION void PBP_NAME(gemm)(const pb_gemm *g) {
    if (!g->b_packed && (g->k == 0 || g->m * g->n * g->k <= 32)) {
        PBP_NAME(gemm_scalar)(g);
        return;
    }
    if (g->k == 0) { /* an empty pack: nothing to read */
        pb_gemm d = *g;
        d.b_cs = 0;
        PBP_NAME(gemm_scalar)(&d);
        return;
    }
    if (g->n <= PBP_NARROW && PBP_NAME(gemm_narrow)(g)) return;
    if (!g->b_packed && !g->bias && g->c_cs != PBP_SIZE && g->c_rs == PBP_SIZE) { /* c is column-major: transpose all */
        pb_gemm d = {g->n, g->m, g->k, g->b, g->b_cs, g->b_rs, g->a, g->a_cs, g->a_rs, g->c, g->c_cs, g->c_rs, 0, 0, 0, g->relu};
        PBP_NAME(gemm_tiles)(&d);
        return;
    }
    if (!g->b_packed && g->m <= 4 && g->b_rs == PBP_SIZE && g->b_cs != PBP_SIZE && g->a_cs == PBP_SIZE) {
        PBP_NAME(gemm_dots)(g);
        return;
    }
    PBP_NAME(gemm_tiles)(g);
}

#undef PBP_SIZE
#undef PBP_PANEL
#undef PBP_PANEL_ROW
#undef PBP_VEC
#undef PBP_MEM
#undef PBP_MASK
#undef PBP_ELEM
#undef PBP_FMA1
