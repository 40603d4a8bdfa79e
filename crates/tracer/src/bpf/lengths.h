/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lengths of time are counted between bounds, which user space gives the programs before they are
 * loaded: ascending, and the last one is the largest number there is. */
#ifndef VMNOISE_LENGTHS_H
#define VMNOISE_LENGTHS_H

#define LENGTH_BOUNDS 64

#endif
