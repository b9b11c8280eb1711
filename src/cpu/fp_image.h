/* SPDX-License-Identifier: MIT */
/* Components of the image, for the XSAVE family. */
#ifndef LOCUM_CPU_FP_IMAGE_H
#define LOCUM_CPU_FP_IMAGE_H

#include "cpu/fp.h"

/** fp_image_init_x87(), _sse(), _avx() - the initial configuration; MXCSR stays */
void fp_image_init_x87(struct fp_image *f);
void fp_image_init_sse(struct fp_image *f);
void fp_image_init_avx(struct fp_image *f);

/** fp_image_normalise_x87() - what loading makes of FCW, FSW and padding */
void fp_image_normalise_x87(struct fp_image *f);

/** fp_image_pointer() - FIP or FDP as a 64-bit load leaves it */
u64 fp_image_pointer(u64 v);

/** fp_image_in_use() - XINUSE: the components not in their initial configuration */
u64 fp_image_in_use(const struct fp_image *f);

/** fp_in_use_compact() - as XSAVEC and XGETBV see it: MXCSR counts for SSE */
u64 fp_in_use_compact(const struct fp_image *f);

#endif
