/*
 * The memory of one nghttp2 session. A session makes some 25 KB at its beginning and keeps them: tables that are nearly
 * empty, and room for a frame to be sent. Here they are pages of their own, which can be folded while the connection is
 * idle: what is not zero in them, about 1 KB, is kept on the heap, and the pages go back to the kernel. Unfolded, they are at
 * the same addresses with the same bytes, so that nghttp2 never knows.
 *
 * What a session allocates later (streams, HPACK's entries, frames) is the heap's, and stays as it is.
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

struct h2_memory;

/* What a session's maker gets of it until h2_memory_seal() comes from its pages. NULL: out of memory. */
struct h2_memory *h2_memory_new(void);
/* For nghttp2_session_server_new3(), which copies it. */
nghttp2_mem h2_memory_functions(struct h2_memory *m);
/* The session is made. */
void h2_memory_seal(struct h2_memory *m);

/* Until h2_memory_unfold() nothing may touch the session. Does nothing when there is no memory to do it. */
void h2_memory_fold(struct h2_memory *m);
void h2_memory_unfold(struct h2_memory *m);
bool h2_memory_is_folded(const struct h2_memory *m);

/* Behind nghttp2_session_del(). NULL is nothing. */
void h2_memory_free(struct h2_memory *m);
