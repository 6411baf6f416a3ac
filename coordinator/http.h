/* A coordinator's HTTP: /healthz, /readyz, /metrics, /v1/members, and its dashboard with /v1/stream. */
#pragma once

#include <uv.h>

#include "core/buf.h"
#include "share.h"

struct http_front;

/* Listens at `address`. NULL: it can't; *ret_error says why. */
struct http_front *http_front_open(uv_loop_t *loop, const char *address, struct coord_share *share,
				   struct buf *ret_error);
/* Closes all connections; frees itself on the loop. NULL is nothing. */
void http_front_close(struct http_front *f);
