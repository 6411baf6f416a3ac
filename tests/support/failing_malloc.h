/*
 * malloc() of the test program, which fails when the test says so and counts what is not free (glibc manual, "Replacing
 * malloc"). Include it in one file of a test. Sanitizers have replaced malloc() already: SANITIZED is defined then, and
 * nothing else is.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "sanitized.h"

#ifndef SANITIZED

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static long left = -1; /* allocations until one fails; −1: none does */
static long live;      /* blocks that are not free */

static bool fails(void)
{
	return left >= 0 && left-- == 0;
}

static void *counted(void *p)
{
	live += p != NULL;
	return p;
}

void *malloc(size_t n)
{
	return fails() ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
	if (p == NULL)
		return malloc(n);
	return fails() ? NULL : __libc_realloc(p, n);
}

void free(void *p)
{
	live -= p != NULL;
	__libc_free(p);
}

#endif
