/*
 * libcurl's transfers on a libuv loop. libcurl says which descriptors to watch and when to be called at the latest; what the loop
 * sees is told to it, and who is done by that is reported.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <uv.h>

struct transfers;

/*
 * `on_done` is called from the loop when a transfer has ended; it may remove and free `easy`, and start others. `loop` is
 * borrowed. NULL: out of memory.
 */
struct transfers *transfers_new(uv_loop_t *loop,
				void (*on_done)(CURL *easy, CURLcode code, void *data), void *data);
/* No transfer is left; on_closed is called from the loop, and then it is gone. */
void transfers_close(struct transfers *l, void (*on_closed)(void *data), void *data);

/* Starts the transfer of `easy`, which must be removed before it is freed. False: out of memory. */
bool transfers_add(struct transfers *l, CURL *easy);
void transfers_remove(struct transfers *l, CURL *easy);

/* Options of a handle; false: out of memory, or libcurl does not take the value. */
bool easy_set_text(CURL *easy, CURLoption option, const char *text);
bool easy_set_long(CURL *easy, CURLoption option, long value);
/* TLS needs a certificate that the system trusts, or one of $SSL_CERT_FILE. */
bool easy_set_trust(CURL *easy);
/* Whether it is http:// or https://, and has a host. */
bool web_url_is_valid(const char *url);
