/* One product without batch axes: chooses the way by shape and strides, walks blocks of k, blocks of rows and panels.
 *
 * A template over PBP_REAL, PBP_NAME, PBP_LANES (see pb_product.h).
 */

#define PBP_SIZE ((int64_t)sizeof(PBP_REAL))

PB_INLINE PBP_REAL PBP_NAME(finish)(PBP_REAL x, const pb_gemm *g, int64_t i, int64_t j) {
    if (g->bias) x += *(const PBP_ELEM *)(g->bias + j * g->bias_s);
    if (g->residual) x += *(const PBP_ELEM *)(g->residual + i * g->residual_rs + j * g->residual_cs);
    return g->relu && x < 0 ? 0 : x;
}

/* Copy contiguous elements of an operand, rounded to the product's precision; dst may be src. */
PB_INLINE void PBP_NAME(copy)(const pb_gemm *g, char *dst, const char *src, int64_t n) {
#if PBP_IS_F32
    if (g->rounding) {
        pb_round_values(g->rounding, dst, src, n);
        return;
    }
#endif
    if (dst != src) memcpy(dst, src, (size_t)(n * PBP_SIZE));
}

/* Any strides, element by element: tiny products and k = 0. */
PBP_NOINLINE void PBP_NAME(gemm_scalar)(const pb_gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const char *a = g->a + i * g->a_rs, *b = g->b + j * g->b_cs;
            PBP_REAL sum = 0;
            for (int64_t k = 0; k < g->k; k++, a += g->a_cs, b += g->b_rs)
                sum = PBP_FMA1(*(const PBP_ELEM *)a, *(const PBP_ELEM *)b, sum);
            *(PBP_ELEM *)(g->c + i * g->c_rs + j * g->c_cs) = PBP_NAME(finish)(sum, g, i, j);
        }
}

/* Both operands contiguous along k: dot products, up to four rows by three columns at once. */
PBP_NOINLINE void PBP_NAME(gemm_dots)(const pb_gemm *g) {
    PBP_REAL out[16];
    for (int64_t j = 0; j < g->n;) {
        const int cols = g->n - j == 4 ? 2 : (int)pb_min_i64(g->n - j, 3);
        const PBP_NAME(dot_fn) four = PBP_NAME(dots_4)[cols - 1], one = PBP_NAME(dots_1)[cols - 1];
        for (int64_t i = 0; i < g->m;) {
            const int rows = g->m - i >= 4 ? 4 : 1;
            (rows == 4 ? four : one)(g->k, g->a + i * g->a_rs, g->a_rs, g->b + j * g->b_cs, g->b_cs, out);
            for (int x = 0; x < rows; x++, i++)
                for (int y = 0; y < cols; y++)
                    *(PBP_ELEM *)(g->c + i * g->c_rs + (j + y) * g->c_cs) =
                        PBP_NAME(finish)(out[x * cols + y], g, i, j + y);
        }
        j += cols;
    }
}

/* Few rows, b too large for the caches near: eight rows of b at a time, from their first column to the last; several rows
 * of a share a stretch of columns while it is in the first-level cache. */
PBP_NOINLINE void PBP_NAME(gemm_stream)(const pb_gemm *g) {
    PBP_REAL x[8];
    const int64_t stretch = g->m == 1 ? g->n : PBP_STRETCH / PBP_SIZE;
    for (int64_t k = 0; k < g->k;) {
        const int rows = g->k - k >= 8 ? 8 : 1;
        for (int64_t j = 0; j < g->n; j += stretch)
            for (int64_t r = 0; r < g->m; r++) {
                for (int i = 0; i < rows; i++) x[i] = *(const PBP_ELEM *)(g->a + r * g->a_rs + (k + i) * g->a_cs);
                (rows == 8 ? PBP_NAME(stream_8) : PBP_NAME(stream_1))(
                    pb_min_i64(g->n - j, stretch), x, g->b + k * g->b_rs + j * PBP_SIZE, g->b_rs,
                    g->c + r * g->c_rs + j * PBP_SIZE, k > 0);
            }
        k += rows;
    }
    if (g->bias || g->relu || g->residual)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                PBP_ELEM *c = (PBP_ELEM *)(g->c + i * g->c_rs) + j;
                *c = PBP_NAME(finish)(*c, g, i, j);
            }
}

/* Whether b is better read in the order in which it lies: one row, or a few where no cache holds b and its rows lie whole
 * pages apart, so that the rows of a panel push each other out of the caches. */
PB_INLINE int PBP_NAME(wants_stream)(const pb_gemm *g) {
    const int64_t bytes = g->k * g->n * PBP_SIZE;
    if (g->b_packed || g->b_cs != PBP_SIZE || g->c_cs != PBP_SIZE || bytes <= PBP_STREAM_BYTES) return 0;
    return g->m == 1 || (g->m <= PBP_TILE_ROWS && bytes > PBP_FAR_BYTES && (g->b_rs & 4095) == 0);
}

/* How the tiles of one product read their operands. */
typedef struct {
    int in_place, on_the_fly, copy_a, fetch_a; /* fetch_a: tiles prefetch the copy of a instead of b */
    int64_t block_k, block_m;
} PBP_NAME(ways);

PB_INLINE PBP_NAME(ways) PBP_NAME(choose)(const pb_gemm *g) {
    const int64_t m = g->m, n = g->n, k = g->k;
    PBP_NAME(ways) w = {0, 0, 0, 0, k, m};
    int64_t deepest = k;
    const int is_large = k * n * PBP_SIZE > PBP_STREAM_BYTES;
    /* Rows whole pages apart share few cache sets: the second tile would find nothing of what the first one read. */
    const int is_scattered = is_large && m > PBP_TILE_ROWS && (g->b_rs & 4095) == 0;
    /* Less than a panel and more than a vector: in place, two tiles of one vector each, half of them computed twice. */
    const int is_part = n > PBP_LANES && n < PBP_PANEL && m > PBP_TILE_ROWS;
    if (g->b_packed) {
        if (k > PBP_LONG_K) deepest = PBP_LONG_K;
    } else if (!g->rounding && g->b_cs == PBP_SIZE && n >= PBP_LANES && !is_scattered && !is_part &&
               (m <= 2 * PBP_TILE_ROWS || (g->b_rs >= 0 && k * g->b_rs <= PBP_PANEL_BYTES))) {
        w.in_place = 1;
        if (is_large) deepest = m <= PBP_PAIR_ROWS ? PBP_STREAM_K : PBP_ROWS_K;
    } else {
        w.on_the_fly = 1;
        deepest = PBP_PANEL_BYTES / PBP_PANEL_ROW;
    }
    /* Copying a pays when many panels read it and it does not lie well: not contiguous, or, for groups of panels, rows
     * whole pages apart, which push each other out of the first-level cache. */
    const int is_paged = w.on_the_fly && m * pb_min_i64(k, deepest) * PBP_SIZE > PBP_FEW_BYTES && (g->a_rs & 4095) == 0;
    if (n > 2 * PBP_PANEL && (m > 2 * PBP_TILE_ROWS || is_paged)) {
        w.copy_a = g->a_cs != PBP_SIZE || is_paged ||
                   (w.in_place && m * pb_min_i64(k, deepest) * PBP_SIZE > PBP_SCRATCH_A);
        if (w.copy_a) deepest = pb_min_i64(deepest, PBP_PANEL_BYTES / PBP_PANEL_ROW);
    }
    w.fetch_a = w.copy_a;
    if (g->rounding) w.copy_a = 1;
    if (k > deepest) w.block_k = pb_ceil_div(k, pb_ceil_div(k, deepest));
    if (w.copy_a) w.block_m = PBP_SCRATCH_A / (w.block_k * PBP_SIZE + 64) / PBP_TILE_ROWS * PBP_TILE_ROWS;
    return w;
}

/* Let a tile prefetch rows in the order in which they lie. */
PB_INLINE void PBP_NAME(fetch_rows)(pb_tile *t, const char *first, int64_t row) {
    t->ahead = first;
    t->ahead_other = row;
    t->ahead_step = 2 * row;
}

/* Rows [0, m) against one group of panels.
 *
 * copied: a is the scratch copy; copied_row: what a row takes there when it is laid out in tiles, else 0. spread: the
 * tiles share the prefetching of the next panel. direct: they store into c; else through a buffer of `cols` columns,
 * to which the residual (of any strides) is added, and then relu applied, on the way out. */
PB_INLINE void PBP_NAME(gemm_rows)(const pb_tile_fn *tiles, pb_tile *t, int64_t m, int copied, int64_t copied_row,
                                    const char *a, int spread, char *c, int64_t c_rs, int64_t c_cs, int64_t cols,
                                    int direct, const char *residual, int64_t residual_rs, int64_t residual_cs) {
    const int64_t count = pb_ceil_div(m, PBP_TILE_ROWS), base = m / count, extra = m % count;
    const int32_t relu = t->relu;
    if (spread) t->ahead_step = pb_ceil_div(t->ahead_step, count); /* each tile prefetches its part of the next panel */
    t->ahead_tile = spread ? t->ahead_step * (t->k / 2) : 0;
    PBP_REAL buffer[PBP_TILE_ROWS * 8 * PBP_LANES] __attribute__((aligned(64)));
    const int64_t buffer_row = 8 * PBP_LANES;
    for (int64_t at = 0, end; at < count; at = end) { /* in one go the tiles that have as many rows and store into c */
        const int64_t rows = base + (at < extra);
        end = !direct ? at + 1 : at < extra ? extra : count;
        t->tiles = end - at;
        t->a = a;
        t->a_tile = copied_row ? copied_row * rows : t->a_rs * rows;
        if (copied_row) t->a_cs = rows * PBP_SIZE;
        if (copied) { /* the copy is contiguous: fetch the next tile's rows */
            PBP_NAME(fetch_rows)(t, a + t->a_tile, rows * PBP_SIZE);
            t->ahead_tile = t->a_tile;
        }
        if (direct) {
            t->c = c;
            t->c_rs = c_rs;
            t->residual = residual;
            tiles[rows - 1](t);
        } else {
            t->c = (char *)buffer;
            t->residual = 0;
            t->relu = relu && !residual;
            t->c_rs = buffer_row * PBP_SIZE;
            if (t->resume)
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t j = 0; j < cols; j++)
                        buffer[r * buffer_row + j] = *(const PBP_ELEM *)(c + r * c_rs + j * c_cs);
            tiles[rows - 1](t);
            if (residual)
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t j = 0; j < cols; j++) {
                        PBP_REAL *x = buffer + r * buffer_row + j;
                        *x += *(const PBP_ELEM *)(residual + r * residual_rs + j * residual_cs);
                        if (relu && *x < 0) *x = 0;
                    }
            for (int64_t r = 0; r < rows; r++)
                for (int64_t j = 0; j < cols; j++)
                    *(PBP_ELEM *)(c + r * c_rs + j * c_cs) = buffer[r * buffer_row + j];
        }
        a += t->a_tile * t->tiles;
        c += c_rs * rows * t->tiles;
        t->ahead += t->ahead_tile * t->tiles;
        if (residual) residual += residual_rs * rows * t->tiles;
    }
    t->relu = relu;
}

/* The bias of `cols` columns for a tile that has `width`: where it lies, or copied. */
PB_INLINE const char *PBP_NAME(bias_at)(const pb_gemm *g, int64_t j, int64_t cols, int64_t width, PBP_REAL *copy) {
    const char *at = g->bias + j * g->bias_s;
    if (g->bias_s == PBP_SIZE && cols == width) return at;
    for (int64_t x = 0; x < width; x++) copy[x] = x < cols ? *(const PBP_ELEM *)(at + x * g->bias_s) : 0;
    return (const char *)copy;
}

/* One block of k and of rows against all columns; k, a, a_rs, a_cs are in t. */
PB_INLINE void PBP_NAME(gemm_block)(const pb_gemm *g, const PBP_NAME(ways) *w, pb_tile *t, int64_t k0, int64_t m0,
                                     int64_t m, int64_t copied_row) {
#if PBP_IS_F32
    const pb_tile_set *sets[] = {&PBP_NAME(tile_set), &PBP_NAME(tile_set_bf16), &PBP_NAME(tile_set_f16)};
    const int is_half = g->b_packed && g->rounding;
    const pb_tile_set *set = sets[is_half ? g->rounding : PBP_EXACT];
    const int64_t panel_row = is_half ? PBP_PANEL_ROW / 2 : PBP_PANEL_ROW;
#else
    const pb_tile_set *set = &PBP_NAME(tile_set);
    const int64_t panel_row = PBP_PANEL_ROW;
#endif
    const int64_t n = g->n, k = g->k, kc = t->k;
    const int last = k0 + kc == k, spread = g->b_packed && m > PBP_TILE_ROWS;
    const char *a = t->a;
    PBP_REAL bias[8 * PBP_LANES] __attribute__((aligned(64)));
    t->relu = last && g->relu;
    t->residual_rs = g->residual_rs;
    for (int64_t j = 0, width; j < n; j += width) {
        int64_t j0 = j, cols = n - j;
        const pb_tile_fn *tiles = set->panel;
        int pack = 0;
        width = PBP_PANEL;
        if (m == 1 && cols >= 4 * PBP_PANEL) {
            width = 4 * PBP_PANEL;
            tiles = set->four;
        } else if (m == 2 && PB_VECTOR_BYTES > 16 && cols >= 3 * PBP_PANEL) {
            width = 3 * PBP_PANEL;
            tiles = set->three;
        } else if (m <= PBP_PAIR_ROWS && cols >= 2 * PBP_PANEL) {
            width = 2 * PBP_PANEL;
            tiles = set->pair;
        } else if (cols <= PBP_LANES) {
            tiles = set->vector;
            width = PBP_LANES;
        }
        if (w->in_place && cols < width) {
            /* The last columns: begin earlier and compute some again, unless they are sums under way. */
            if (n >= width && w->block_k == k)
                j0 = n - width;
            else if (n >= PBP_LANES && w->block_k == k)
                width = PBP_LANES, tiles = set->vector;
            else
                pack = 1;
            if (!pack) cols = width;
        }
        cols = pb_min_i64(cols, width);
        PBP_NAME(fetch_rows)(t, t->b, 0);
        t->ahead_jump = 0;
        t->turn = kc;
        t->b_rs = panel_row;
        if (g->b_packed) {
            t->b = g->b + j / PBP_PANEL * k * panel_row + k0 * panel_row;
            t->b_ps = k * panel_row;
            /* A single tile fetches its own panels and the start of the next; several tiles share the next one, of which
             * memory answers both halves side by side. */
            if (spread) {
                t->ahead = t->b + t->b_ps;
                t->ahead_other = kc / 2 * panel_row;
                t->ahead_step = panel_row;
            } else {
                if (kc > PBP_AHEAD) t->turn = kc - PBP_AHEAD;
                PBP_NAME(fetch_rows)(t, t->b + PBP_AHEAD * panel_row, panel_row);
                t->ahead_jump = t->b_ps * (width / PBP_PANEL) - kc * panel_row;
            }
        } else {
            const char *b = g->b + k0 * g->b_rs + j0 * g->b_cs;
            if (pack) {
                PBP_NAME(pack_panel)(kc, cols, b, g->b_rs, g->b_cs, pb_scratch.b);
                t->b = pb_scratch.b;
            } else {
                t->b = b;
                t->b_rs = g->b_rs;
                t->b_ps = PBP_PANEL_ROW;
            }
            t->ahead = b;
            if (!pack && g->b_cs == PBP_SIZE && (j + width) < n) PBP_NAME(fetch_rows)(t, b + width * PBP_SIZE, g->b_rs);
        }
        t->bias = last && g->bias ? PBP_NAME(bias_at)(g, j0, cols, width, bias) : 0;
        char *c = g->c + m0 * g->c_rs + j0 * g->c_cs;
        const char *residual = 0;
        if (last && g->residual) residual = g->residual + m0 * g->residual_rs + j0 * g->residual_cs;
        const int direct = cols == width && g->c_cs == PBP_SIZE && (!residual || g->residual_cs == PBP_SIZE);
        PBP_NAME(gemm_rows)(tiles, t, m, w->fetch_a, copied_row, a, spread, c, g->c_rs, g->c_cs, cols, direct, residual,
                            g->residual_rs, g->residual_cs);
    }
}

/* The rows of one tile for a group of panels: where they lie, or copied, when `is_copied`, to the scratch. */
PB_INLINE void PBP_NAME(tile_a)(const pb_gemm *g, int is_copied, pb_tile *t, int64_t k0, int64_t i, int64_t rows) {
    t->a = g->a + i * g->a_rs + k0 * g->a_cs;
    t->a_rs = g->a_rs;
    t->a_cs = g->a_cs;
    if (!is_copied) return;
    const char *from = t->a;
    t->a = pb_scratch.a;
    if (g->a_cs == PBP_SIZE) { /* rows stay rows, off each other's cache sets */
        t->a_rs = t->k * PBP_SIZE + 64;
        for (int64_t r = 0; r < rows; r++) PBP_NAME(copy)(g, pb_scratch.a + r * t->a_rs, from + r * g->a_rs, t->k);
    } else {
        t->a_rs = PBP_SIZE;
        t->a_cs = rows * PBP_SIZE;
        PBP_NAME(copy_tile)(t->k, rows, from, g->a_rs, g->a_cs, pb_scratch.a);
        PBP_NAME(copy)(g, pb_scratch.a, pb_scratch.a, rows * t->k);
    }
}

/* One block of k, b packed on the fly: a group of panels, which stays in L2, meets all rows, tile by tile. So b is packed
 * once, and what a tile reads of a stays in L1 from panel to panel. Few rows stay in L2 themselves: there a panel in L1
 * meets them all, and groups are small, since most of the time goes into packing. */
PB_INLINE void PBP_NAME(gemm_groups)(const pb_gemm *g, const PBP_NAME(ways) *w, pb_tile *t, int64_t k0) {
    const int64_t m = g->m, n = g->n, kc = t->k, panel = kc * PBP_PANEL_ROW;
    const int last = k0 + kc == g->k, is_far = g->b_cs == PBP_SIZE && g->k * n * PBP_SIZE > PBP_FAR_BYTES;
    const int is_few = m * kc * PBP_SIZE <= PBP_FEW_BYTES && !w->copy_a;
    const int64_t group = (!is_few ? PBP_GROUP : is_far ? 2 * PBP_FEW_PANELS : PBP_FEW_PANELS) * PBP_PANEL;
    const int64_t parts = is_few ? 1 : pb_ceil_div(m, PBP_TILE_ROWS), base = m / parts;
    PBP_REAL bias[PBP_PANEL] __attribute__((aligned(64)));
    t->relu = last && g->relu;
    t->residual_rs = g->residual_rs;
    t->b_rs = PBP_PANEL_ROW;
    t->b_ps = panel;
    for (int64_t j0 = 0; j0 < n; j0 += group) {
        const int64_t columns = pb_min_i64(n - j0, group);
        PBP_NAME(pack_group)(kc, columns, g->b + k0 * g->b_rs + j0 * g->b_cs, g->b_rs, g->b_cs, pb_scratch.b);
        PBP_NAME(copy)(g, pb_scratch.b, pb_scratch.b, pb_ceil_div(columns, PBP_PANEL) * PBP_PANEL * kc);
        int64_t extra = m % parts;
        for (int64_t i = 0, rows; i < m; i += rows) {
            rows = base + (extra-- > 0);
            PBP_NAME(tile_a)(g, w->copy_a, t, k0, i, rows);
            const char *a = t->a;
            for (int64_t part = 0; part < columns; part += PBP_PANEL) {
                const int64_t j = j0 + part, width = columns - part <= PBP_LANES ? PBP_LANES : PBP_PANEL;
                const int64_t cols = pb_min_i64(columns - part, width);
                t->b = pb_scratch.b + part / PBP_PANEL * panel;
                PBP_NAME(fetch_rows)(t, t->b + PBP_NEAR * PBP_PANEL_ROW, PBP_PANEL_ROW); /* all panels lie in one piece */
                t->ahead_jump = 0;
                t->turn = kc;
                if (i + rows < m && (g->a_cs == PBP_SIZE ? part < rows * PBP_PANEL : part == 0)) {
                    /* a row of the next tile, or all of them where they lie side by side */
                    PBP_NAME(fetch_rows)(t, g->a + (i + rows + part / PBP_PANEL) * g->a_rs + k0 * g->a_cs, g->a_cs);
                }
                if (is_far && i == 0) { /* what is packed next, so that packing does not wait for memory */
                    if (j + group < n)
                        PBP_NAME(fetch_rows)(t, g->b + k0 * g->b_rs + (j + group) * PBP_SIZE, g->b_rs);
                    else if (!last)
                        PBP_NAME(fetch_rows)(t, g->b + (k0 + kc) * g->b_rs + part * PBP_SIZE, g->b_rs);
                }
                t->bias = last && g->bias ? PBP_NAME(bias_at)(g, j, cols, width, bias) : 0;
                const char *residual = 0;
                if (last && g->residual) residual = g->residual + i * g->residual_rs + j * g->residual_cs;
                const int direct = cols == width && g->c_cs == PBP_SIZE && (!residual || g->residual_cs == PBP_SIZE);
                PBP_NAME(gemm_rows)(width == PBP_PANEL ? PBP_NAME(tile_set).panel : PBP_NAME(tile_set).vector, t, rows, 0,
                                    0, a, 0, g->c + i * g->c_rs + j * g->c_cs, g->c_rs, g->c_cs, cols, direct, residual,
                                    g->residual_rs, g->residual_cs);
            }
        }
    }
}

/* The general way: tiles over panels, which are packed, used in place or packed on the fly. */
PBP_NOINLINE void PBP_NAME(gemm_tiles)(const pb_gemm *g) {
    if (!g->rounding && PBP_NAME(wants_stream)(g)) {
        PBP_NAME(gemm_stream)(g);
        return;
    }
    const PBP_NAME(ways) w = PBP_NAME(choose)(g);
    pb_tile t;
    for (int64_t k0 = 0; k0 < g->k; k0 += w.block_k) {
        t.k = pb_min_i64(g->k - k0, w.block_k);
        t.resume = k0 > 0;
        if (w.on_the_fly) {
            PBP_NAME(gemm_groups)(g, &w, &t, k0);
            continue;
        }
        for (int64_t m0 = 0; m0 < g->m; m0 += w.block_m) {
            const int64_t m = pb_min_i64(g->m - m0, w.block_m);
            int64_t copied_row = 0;
            t.a = g->a + m0 * g->a_rs + k0 * g->a_cs;
            t.a_rs = g->a_rs;
            t.a_cs = g->a_cs;
            if (w.copy_a && g->a_cs == PBP_SIZE) { /* rows stay rows, off each other's cache sets */
                const int64_t row = t.k * PBP_SIZE + 64;
                for (int64_t r = 0; r < m; r++) PBP_NAME(copy)(g, pb_scratch.a + r * row, t.a + r * g->a_rs, t.k);
                t.a = pb_scratch.a;
                t.a_rs = row;
            } else if (w.copy_a) {
                const int64_t count = pb_ceil_div(m, PBP_TILE_ROWS), base = m / count;
                int64_t extra = m % count;
                copied_row = t.k * PBP_SIZE;
                for (int64_t i = 0, rows; i < m; i += rows) {
                    rows = base + (extra-- > 0);
                    PBP_NAME(copy_tile)(t.k, rows, t.a + i * g->a_rs, g->a_rs, g->a_cs, pb_scratch.a + i * copied_row);
                    PBP_NAME(copy)(g, pb_scratch.a + i * copied_row, pb_scratch.a + i * copied_row, rows * t.k);
                }
                t.a = pb_scratch.a;
                t.a_rs = PBP_SIZE;
            }
            PBP_NAME(gemm_block)(g, &w, &t, k0, m0, m, copied_row);
        }
    }
}

/* c.T = b.T @ a.T. The bias, which would lie along rows, and what follows it are added afterwards. */
PBP_NOINLINE void PBP_NAME(gemm_transposed)(const pb_gemm *g) {
    const pb_gemm d = {g->n, g->m, g->k, g->b, g->b_cs, g->b_rs, g->a, g->a_cs, g->a_rs,
                       g->c, g->c_cs, g->c_rs, 0, 0, 0, g->bias || g->residual ? 0 : g->relu, 0, 0, 0, PBP_EXACT};
    PBP_NAME(gemm_tiles)(&d);
    if (!g->bias && !g->residual) return;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            PBP_ELEM *c = (PBP_ELEM *)(g->c + i * g->c_rs + j * g->c_cs);
            *c = PBP_NAME(finish)(*c, g, i, j);
        }
}

/* n <= PBP_NARROW. False: it is a matter for tiles. */
PBP_NOINLINE int PBP_NAME(gemm_narrow)(const pb_gemm *g) {
    pb_gemm d = *g;
    if (g->b_packed) {
        d.b_cs = PBP_NAME(narrow_stride)(g->k);
        d.b_rs = PBP_SIZE;
        d.b_packed = 0;
    }
    if (g->a_cs != PBP_SIZE) { /* a.T @ v: a's columns are rows of the transposed product */
        PBP_NAME(gemm_transposed)(&d);
        return 1;
    }
    if (d.b_rs != PBP_SIZE) {
        if (g->n * g->k * PBP_SIZE > PBP_PANEL_BYTES) return 0;
        PBP_ELEM *to = (PBP_ELEM *)pb_scratch.b;
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t k = 0; k < g->k; k++) *to++ = *(const PBP_ELEM *)(g->b + j * g->b_cs + k * g->b_rs);
        d.b = pb_scratch.b;
        d.b_rs = PBP_SIZE;
        d.b_cs = g->k * PBP_SIZE;
    }
    PBP_NAME(gemm_dots)(&d);
    return 1;
}

PBP_FUNCTION void PBP_NAME(gemm)(const pb_gemm *g) {
    if (g->k == 0) { /* nothing of a and b is read */
        PBP_NAME(gemm_scalar)(g);
    } else if (g->rounding) {
        PBP_NAME(gemm_tiles)(g);
    } else if (!g->b_packed && g->m * g->n * g->k <= 32) {
        PBP_NAME(gemm_scalar)(g);
    } else if (g->n <= PBP_NARROW && PBP_NAME(gemm_narrow)(g)) {
        return;
    } else if (!g->b_packed && !g->bias && !g->residual && g->c_cs != PBP_SIZE && g->c_rs == PBP_SIZE) { /* c is column-major */
        PBP_NAME(gemm_transposed)(g);
    } else if (!g->b_packed && g->m <= PBP_DOT_ROWS && g->b_rs == PBP_SIZE && g->a_cs == PBP_SIZE &&
               g->b_cs != PBP_SIZE) {
        PBP_NAME(gemm_dots)(g);
    } else {
        PBP_NAME(gemm_tiles)(g);
    }
}

#undef PBP_SIZE
#undef PBP_PANEL
#undef PBP_PANEL_ROW
#undef PBP_VEC
#undef PBP_MEM
#undef PBP_MASK
#undef PBP_ELEM
#undef PBP_FMA1
#undef PBP_VEC128
#undef PBP_SHUFFLE4
#undef PBP_SHUFFLE2
