/* A session's memory: folded it is the kernel's again, unfolded it is what it was, where it was. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/h2_memory.h"

static struct h2_memory *memory;
static nghttp2_mem f;

static void start(void)
{
	memory = h2_memory_new();
	cr_assert_not_null(memory);
	f = h2_memory_functions(memory);
}

static void end(void)
{
	h2_memory_free(memory);
}

TestSuite(h2_memory, .init = start, .fini = end);

static bool is_resident(const void *ptr)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char at;

	cr_assert_eq(mincore((void *)((uintptr_t)ptr / page * page), page, &at), 0);
	return (at & 1) != 0;
}

Test(h2_memory, folded_and_unfolded)
{
	char *first = f.malloc(3000, f.mem_user_data), *second = f.calloc(2, 4000, f.mem_user_data);

	h2_memory_seal(memory);
	for (int round = 0; round < 3; round++) {
		memset(first, 'a' + round, 3000);
		second[7999] = 'z';
		cr_expect(is_resident(first));
		h2_memory_fold(memory);
		cr_expect(h2_memory_is_folded(memory));
		cr_expect_not(is_resident(first));
		cr_expect_not(is_resident(second + 7999));
		h2_memory_fold(memory); /* it is */
		h2_memory_unfold(memory);
		cr_expect_not(h2_memory_is_folded(memory));
		h2_memory_unfold(memory); /* it is */
		cr_expect_eq(first[0], 'a' + round);
		cr_expect_eq(first[2999], 'a' + round);
		cr_expect_eq(second[7998], 0);
		cr_expect_eq(second[7999], 'z');
	}
	f.free(first, f.mem_user_data);
	f.free(second, f.mem_user_data);
}

Test(h2_memory, what_is_freed_folded)
{
	char *first = f.malloc(3000, f.mem_user_data);

	memset(first, 'a', 3000);
	h2_memory_fold(memory);
}

/* Freed or not is for AddressSanitizer to say. */
Test(h2_memory, the_heap_has_the_rest)
{
	char *large = f.calloc(1, 1 << 20, f.mem_user_data), *grown, *later;

	memset(large, 'l', 1 << 20);
	grown = f.malloc(100, f.mem_user_data);
	memcpy(grown, "grown", 6);
	h2_memory_seal(memory);
	later = f.malloc(100, f.mem_user_data);
	memcpy(later, "later", 6);
	h2_memory_fold(memory);
	cr_expect_str_eq(later, "later");
	cr_expect_eq(large[(1 << 20) - 1], 'l');
	h2_memory_unfold(memory);
	grown = f.realloc(grown, 1 << 20, f.mem_user_data);
	later = f.realloc(later, 1 << 20, f.mem_user_data);
	cr_expect_str_eq(grown, "grown");
	cr_expect_str_eq(later, "later");
	f.free(large, f.mem_user_data);
	f.free(grown, f.mem_user_data);
	f.free(later, f.mem_user_data);
	f.free(NULL, f.mem_user_data);
}
