/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lengths of time are counted between bounds. User space gives the bounds to the programs before it
 * loads them. They ascend, and the last one is the largest number of 64 bits. */
#ifndef VMNOISE_LENGTHS_H
#define VMNOISE_LENGTHS_H

#define LENGTH_BOUNDS 64

#endif
