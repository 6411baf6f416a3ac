#include "io/h2_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/sparse.h"

enum {
	PAGES_BYTES = 28 * 1024, /* nghttp2 1.52 takes 24.9 KB */
	ALIGNMENT = 16,
};

_Static_assert(PAGES_BYTES % SPARSE_GROUP_BYTES == 0, "packed in groups");

struct h2_memory {
	char *pages;      /* NULL: the kernel had none, and all is the heap's */
	size_t used;      /* of the pages */
	bool sealed;      /* the rest of them is for nobody */
	uint64_t *folded; /* what was in them; NULL: they are in use */
};

/* ---- What nghttp2 calls ---- */

static bool is_paged(const struct h2_memory *m, const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr, pages = (uintptr_t)m->pages;

	return m->pages != NULL && at >= pages && at < pages + PAGES_BYTES;
}

/* Zeroed, as fresh pages are; NULL: not from there. */
static void *take_paged(struct h2_memory *m, size_t len)
{
	void *at;

	if (m->sealed || m->pages == NULL || len >= PAGES_BYTES - m->used)
		return NULL;
	at = m->pages + m->used;
	m->used += (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* as the pages are aligned */
	return at;
}

static void *on_malloc(size_t len, void *data)
{
	void *at = take_paged(data, len);

	return at != NULL ? at : malloc(len);
}

static void *on_calloc(size_t n, size_t len, void *data)
{
	void *at = len != 0 && n > SIZE_MAX / len ? NULL : take_paged(data, n * len);

	return at != NULL ? at : calloc(n, len);
}

static void on_free(void *ptr, void *data)
{
	if (!is_paged(data, ptr))
		free(ptr);
}

static void *on_realloc(void *ptr, size_t len, void *data)
{
	struct h2_memory *m = data;
	size_t most;
	void *at;

	if (!is_paged(m, ptr))
		return realloc(ptr, len);
	most = (size_t)(m->pages + PAGES_BYTES - (char *)ptr); /* it was no longer than that */
	at = malloc(len);
	if (at != NULL)
		memcpy(at, ptr, len < most ? len : most);
	return at;
}

nghttp2_mem h2_memory_functions(struct h2_memory *m)
{
	return (nghttp2_mem){m, on_malloc, on_free, on_calloc, on_realloc};
}

/* ---- The pages ---- */

struct h2_memory *h2_memory_new(void)
{
	struct h2_memory *m = calloc(1, sizeof *m);
	void *pages;

	if (m == NULL)
		return NULL;
	pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return m;
	m->pages = pages;
	/* One huge page for many sessions could not be given back. A kernel that has none says so, which is fine. */
	(void)madvise(pages, PAGES_BYTES, MADV_NOHUGEPAGE);
	return m;
}

void h2_memory_seal(struct h2_memory *m)
{
	m->sealed = true;
}

void h2_memory_fold(struct h2_memory *m)
{
	uint64_t packed[SPARSE_WORDS_MAX(PAGES_BYTES)];
	uint64_t *folded;
	size_t len;

	if (m->folded != NULL || m->pages == NULL)
		return;
	len = sparse_pack(m->pages, PAGES_BYTES, packed) * sizeof packed[0];
	folded = malloc(len);
	if (folded == NULL)
		return;
	memcpy(folded, packed, len);
	if (madvise(m->pages, PAGES_BYTES, MADV_DONTNEED) == 0)
		m->folded = folded;
	else
		free(folded);
}

void h2_memory_unfold(struct h2_memory *m)
{
	if (m->folded == NULL)
		return;
	sparse_unpack(m->folded, m->pages, PAGES_BYTES);
	free(m->folded);
	m->folded = NULL;
}

bool h2_memory_is_folded(const struct h2_memory *m)
{
	return m->folded != NULL;
}

void h2_memory_free(struct h2_memory *m)
{
	if (m == NULL)
		return;
	if (m->pages != NULL)
		(void)munmap(m->pages, PAGES_BYTES);
	free(m->folded);
	free(m);
}
