/* For test programs with a main() of their own: the first check that fails ends the program. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                        \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			exit(1);                                                \
		}                                                               \
	} while (0)
