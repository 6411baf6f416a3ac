/*
 * The story of a contact: contact_start() gives libcurl a handle of its own, on the loop by io/transfers.h, which says when it is
 * done. Every path of a contact ends in contact_free(), exactly once: on_transferred(), or contacts_close().
 *
 * libcurl's own error texts may show a URL, so they are never asked for.
 */
#include "io/contact.h"

#include <stdlib.h>

#include "core/buf.h"
#include "core/version.h"
#include "io/transfers.h"

struct contact {
	struct contact *next, **up;
	struct contacts *contacts;
	CURL *easy;
	struct buf body;
	size_t head_bytes;
	bool full; /* the body is as long as is read */
	void (*on_done)(const struct pool_contact *met, void *data);
	void *data;
};

struct contacts {
	struct transfers *transfers;
	struct contact *first;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- One contact ---- */

static void contact_free(struct contact *c)
{
	if (c->up != NULL) {
		*c->up = c->next;
		if (c->next != NULL)
			c->next->up = c->up;
		transfers_remove(c->contacts->transfers, c->easy);
	}
	curl_easy_cleanup(c->easy);
	buf_release(&c->body);
	free(c);
}

static size_t on_body(char *ptr, size_t size, size_t n, void *data)
{
	struct contact *c = data;
	size_t len = size * n, room = CONTACT_BODY_MAX - c->body.len;

	buf_add(&c->body, ptr, len < room ? len : room);
	c->full = c->body.len == CONTACT_BODY_MAX;
	return c->full || buf_failed(&c->body) ? 0 : len;
}

static size_t on_head(char *ptr, size_t size, size_t n, void *data)
{
	struct contact *c = data;

	(void)ptr;
	c->head_bytes += size * n;
	return c->head_bytes <= CONTACT_HEAD_MAX ? size * n : 0;
}

/* SOCKS said no, or nothing. */
static enum pool_contact_end socks_end(CURL *easy)
{
	long error = CURLPX_OK;

	(void)curl_easy_getinfo(easy, CURLINFO_PROXY_ERROR, &error);
	switch (error) {
	case CURLPX_IDENTD:
	case CURLPX_IDENTD_DIFFER:
	case CURLPX_LONG_PASSWD:
	case CURLPX_LONG_USER:
	case CURLPX_NO_AUTH:
	case CURLPX_USER_REJECTED:
		return POOL_CONTACT_AUTH;
	case CURLPX_RESOLVE_HOST:
		return POOL_CONTACT_NO_NAME;
	case CURLPX_CLOSED:
	case CURLPX_RECV_ADDRESS:
	case CURLPX_RECV_AUTH:
	case CURLPX_RECV_CONNECT:
	case CURLPX_RECV_REQACK:
	case CURLPX_SEND_AUTH:
	case CURLPX_SEND_CONNECT:
	case CURLPX_SEND_REQUEST:
		return POOL_CONTACT_CLOSED;
	default:
		return POOL_CONTACT_REFUSED;
	}
}

static enum pool_contact_end end_of(const struct contact *c, CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return POOL_CONTACT_WHOLE;
	case CURLE_OPERATION_TIMEDOUT:
		return POOL_CONTACT_TIMED_OUT;
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return POOL_CONTACT_NONE;
	case CURLE_COULDNT_RESOLVE_HOST:
		return POOL_CONTACT_NO_NAME;
	case CURLE_OUT_OF_MEMORY:
		return POOL_CONTACT_NO_MEMORY;
	case CURLE_PROXY:
		return socks_end(c->easy);
	case CURLE_WRITE_ERROR:
		if (buf_failed(&c->body))
			return POOL_CONTACT_NO_MEMORY;
		return c->full ? POOL_CONTACT_WHOLE : POOL_CONTACT_LOST;
	default:
		return POOL_CONTACT_LOST;
	}
}

static void on_transferred(CURL *easy, CURLcode code, void *data)
{
	struct contact *c = NULL;
	long connect_status = 0, status = 0;

	(void)data;
	if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &c) != CURLE_OK)
		return;
	(void)curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	const struct pool_contact met = {.end = end_of(c, code),
					 .connect_status = (unsigned)connect_status,
					 .status = (unsigned)status,
					 .body = buf_slice(&c->body)};

	c->on_done(&met, c->data);
	contact_free(c);
}

/* ---- What it is to do ---- */

static bool set_credential(CURL *easy, CURLoption option, struct slice encoded,
			   struct slice session)
{
	struct buf text = {0};

	pool_url_decode(encoded, session, &text);
	buf_add(&text, "", 1);
	bool done = !buf_failed(&text) && easy_set_text(easy, option, text.ptr);

	if (text.ptr != NULL)
		explicit_bzero(text.ptr, text.len);
	buf_release(&text);
	return done;
}

static bool set_endpoint(CURL *easy, const struct pool_url *url, struct slice session)
{
	static const long types[POOL_SCHEMES] = {
		[POOL_HTTP] = CURLPROXY_HTTP,     [POOL_HTTPS] = CURLPROXY_HTTPS,
		[POOL_SOCKS4] = CURLPROXY_SOCKS4, [POOL_SOCKS4A] = CURLPROXY_SOCKS4A,
		[POOL_SOCKS5] = CURLPROXY_SOCKS5, [POOL_SOCKS5H] = CURLPROXY_SOCKS5_HOSTNAME,
		[POOL_DIRECT] = CURLPROXY_HTTP,
	};
	struct buf host = {0};

	if (url->scheme != POOL_DIRECT)
		pool_url_host(url, &host);
	buf_add(&host, "", 1);
	bool done = !buf_failed(&host) && easy_set_text(easy, CURLOPT_PROXY, host.ptr) &&
		    easy_set_text(easy, CURLOPT_NOPROXY, "") &&
		    easy_set_long(easy, CURLOPT_PROXYTYPE, types[url->scheme]) &&
		    easy_set_long(easy, CURLOPT_HTTPPROXYTUNNEL,
				  url->scheme == POOL_HTTP || url->scheme == POOL_HTTPS) &&
		    easy_set_long(easy, CURLOPT_SOCKS5_AUTH, (long)CURLAUTH_BASIC);

	buf_release(&host);
	if (done && url->has_user)
		done = set_credential(easy, CURLOPT_PROXYUSERNAME, url->user, session);
	if (done && url->has_password)
		done = set_credential(easy, CURLOPT_PROXYPASSWORD, url->password, session);
	return done;
}

/* A name that does not resolve is not waited for when its time is up: other requests are on this loop. */
static bool set_request(CURL *easy, const struct contact_order *order)
{
	long timeout_ms = order->timeout_ms < INT32_MAX ? (long)order->timeout_ms : INT32_MAX;

	return easy_set_text(easy, CURLOPT_URL, order->url) &&
	       easy_set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       easy_set_text(easy, CURLOPT_USERAGENT, "kova-agent/" KOVA_VERSION) &&
	       easy_set_long(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
	       easy_set_long(easy, CURLOPT_TIMEOUT_MS, timeout_ms) &&
	       easy_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms) &&
	       easy_set_long(easy, CURLOPT_NOSIGNAL, 1) &&
	       easy_set_long(easy, CURLOPT_QUICK_EXIT, 1) &&
	       easy_set_long(easy, CURLOPT_FRESH_CONNECT, 1) &&
	       easy_set_long(easy, CURLOPT_FORBID_REUSE, 1) &&
	       easy_set_long(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0);
}

static bool set_callbacks(struct contact *c)
{
	CURL *easy = c->easy;

	return curl_easy_setopt(easy, CURLOPT_PRIVATE, c) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEDATA, c) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERDATA, c) == CURLE_OK;
}

struct contact *contact_start(struct contacts *all, const struct contact_order *order,
			      void (*on_done)(const struct pool_contact *met, void *data),
			      void *data)
{
	struct contact *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	*c = (struct contact){
		.contacts = all, .easy = curl_easy_init(), .on_done = on_done, .data = data};
	if (c->easy == NULL || !set_callbacks(c) || !easy_set_trust(c->easy) ||
	    !set_request(c->easy, order) ||
	    !set_endpoint(c->easy, order->through, order->session) ||
	    !transfers_add(all->transfers, c->easy)) {
		contact_free(c);
		return NULL;
	}
	c->next = all->first;
	c->up = &all->first;
	if (c->next != NULL)
		c->next->up = &c->next;
	all->first = c;
	return c;
}

/* ---- All of them ---- */

struct contacts *contacts_new(uv_loop_t *loop)
{
	struct contacts *all = calloc(1, sizeof *all);

	if (all == NULL)
		return NULL;
	all->transfers = transfers_new(loop, on_transferred, all);
	if (all->transfers == NULL) {
		free(all);
		return NULL;
	}
	return all;
}

static void on_transfers_closed(void *data)
{
	struct contacts *all = data;
	void (*on_closed)(void *) = all->on_closed;
	void *closed_data = all->closed_data;

	free(all);
	on_closed(closed_data);
}

void contacts_close(struct contacts *all, void (*on_closed)(void *data), void *data)
{
	if (all == NULL)
		return;
	while (all->first != NULL)
		contact_free(all->first);
	all->on_closed = on_closed;
	all->closed_data = data;
	transfers_close(all->transfers, on_transfers_closed, all);
}
