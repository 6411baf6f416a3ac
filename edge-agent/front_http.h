/* The HTTP/1.1 front: docs/protocol-http.md. Its handlers are in front_limiter.c and front_admin.c. */
#pragma once

#include "io/conn.h"

extern const struct front_ops front_http;
