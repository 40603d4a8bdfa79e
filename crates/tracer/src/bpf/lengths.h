/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lengths of time are counted between bounds, in ns. User space sets the bounds before it loads the
 * programs. They are ascending, and the last one is the largest 64-bit number. */
#ifndef VMNOISE_LENGTHS_H
#define VMNOISE_LENGTHS_H

#define LENGTH_BOUNDS 64

#endif
