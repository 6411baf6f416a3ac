#include "packed_heap.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

/* A block begins in the first PAGE_BYTES of its page: so it is found by the block's address. */
enum { PAGE_BYTES = 1 << 18, ALIGNMENT = 4 };

/* In 1/SPARSE of what is live. */
enum { HEAP_SPARSE = 6, PAGE_SPARSE = 8 };

struct packed_page {
	struct packed_page *next, *before;
	size_t used, live; /* bytes, the head included; of blocks */
	size_t size;
	_Alignas(8) unsigned char bytes[];
};

static size_t rounded(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool packed_heap_fits(size_t from, size_t to)
{
	return rounded(from) == rounded(to);
}

static struct packed_page *page_of(const void *block)
{
	return (struct packed_page *)((uintptr_t)block & ~(uintptr_t)(PAGE_BYTES - 1));
}

void packed_heap_release(struct packed_heap *h)
{
	for (struct packed_page *p = h->pages, *next; p != NULL; p = next) {
		next = p->next;
		munmap(p, p->size);
	}
	*h = (struct packed_heap){0};
}

/* Memory at a multiple of PAGE_BYTES: what is too much at both ends is given back. */
static void *map(size_t size)
{
	unsigned char *all = mmap(NULL, size + PAGE_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t lead;

	if (all == MAP_FAILED)
		return NULL;
	lead = PAGE_BYTES - (uintptr_t)all % PAGE_BYTES;
	munmap(all, lead);
	if (lead < PAGE_BYTES)
		munmap(all + lead + size, PAGE_BYTES - lead);
	return all + lead;
}

/* With room for a block of so many bytes. */
static struct packed_page *page_new(struct packed_heap *h, size_t bytes)
{
	size_t size =
		(sizeof(struct packed_page) + bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	struct packed_page *p = map(size);

	if (p == NULL)
		return NULL;
	*p = (struct packed_page){.next = h->pages, .used = sizeof *p, .size = size};
	if (h->pages != NULL)
		h->pages->before = p;
	h->pages = p;
	return p;
}

/* What is left at the end of the page before is lost. */
void *packed_heap_new(struct packed_heap *h, size_t bytes)
{
	size_t takes = rounded(bytes);
	struct packed_page *p = h->current;
	unsigned char *block;

	if (p == NULL || p->used >= PAGE_BYTES || p->used + takes > p->size) {
		p = page_new(h, takes);
		if (p == NULL)
			return NULL;
		if (h->current != NULL)
			h->lost += h->current->size - h->current->used;
		h->current = p;
	}
	block = (unsigned char *)p + p->used;
	p->used += takes;
	p->live += takes;
	h->live += takes;
	return block;
}

static void page_free(struct packed_heap *h, struct packed_page *p)
{
	if (p->next != NULL)
		p->next->before = p->before;
	if (p->before != NULL)
		p->before->next = p->next;
	else
		h->pages = p->next;
	h->lost -= p->size - sizeof *p;
	munmap(p, p->size);
}

void packed_heap_free(struct packed_heap *h, void *block, size_t bytes)
{
	struct packed_page *p = page_of(block);
	size_t took = rounded(bytes);

	assert(p->live >= took);
	p->live -= took;
	h->live -= took;
	h->lost += took;
	if (p->live == 0 && p != h->current)
		page_free(h, p);
}

void packed_heap_shrink(struct packed_heap *h, void *block, size_t from, size_t to)
{
	size_t less = rounded(from) - rounded(to);

	page_of(block)->live -= less;
	h->live -= less;
	h->lost += less;
}

bool packed_heap_is_sparse(const struct packed_heap *h)
{
	return h->lost > h->live / HEAP_SPARSE + PAGE_BYTES;
}

bool packed_heap_is_in_sparse_page(const struct packed_heap *h, const void *block)
{
	const struct packed_page *p = page_of(block);

	return p != h->current && p->size - sizeof *p - p->live > p->live / PAGE_SPARSE;
}
