/* The bounds of a request, which the agent enforces and its clients keep to. */
#pragma once

enum {
	REQUEST_PAIRS_MAX = 16,
	REQUEST_KEY_MAX = 1024, /* bytes */
	REQUEST_ID_MAX = 256,
	REQUEST_TOKEN_MAX = 256, /* bytes of an auth token */
	REQUEST_WAIT_MAX_MS = 86400000,
};
