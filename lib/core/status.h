/* What a fallible function returns: one code and one text for each kind of failure. */
#pragma once

#define KOVA_STATUSES(X)                                        \
	X(KOVA_OK, 0, "ok")                                     \
	X(KOVA_AGAIN, 1, "need more bytes")                     \
	X(KOVA_ENOMEM, -1, "out of memory")                     \
	X(KOVA_EPROTO, -2, "malformed input")                   \
	X(KOVA_ERANGE, -3, "out of range")                      \
	X(KOVA_ETOOBIG, -4, "over a stated limit")              \
	X(KOVA_ENOTFOUND, -5, "not found")                      \
	X(KOVA_ETIMEDOUT, -6, "no answer in time")              \
	X(KOVA_ECONN, -7, "no connection")                      \
	X(KOVA_EREPLY, -8, "the server answered with an error") \
	X(KOVA_EAUTH, -9, "not permitted")                      \
	X(KOVA_ECLOSED, -10, "closed")                          \
	X(KOVA_EIO, -11, "input or output failed")              \
	X(KOVA_ECONFIG, -12, "the configuration has an error")

typedef enum kova_status {
#define X(name, value, text) name = value,
	KOVA_STATUSES(X)
#undef X
} kova_status;

#define KOVA_MUST_CHECK __attribute__((warn_unused_result))

/* The text of `status`: static, never NULL. */
const char *kova_status_text(kova_status status);
