#include "agent_http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"

struct agent_http {
	CURL *curl;
	struct curl_slist *fields;
	struct curl_slist *connect_to; /* where that is, when its name is another's */
	char base[300];                /* "http://host:port" */
};

static void host_write(char *to, size_t size, const char *before, const char *host, unsigned port)
{
	bool v6 = strchr(host, ':') != NULL;

	snprintf(to, size, "%s%s%s%s:%u", before, v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* The name that the certificate must have stands in the URL. */
static bool base_write(struct agent_http *a, const struct address *address)
{
	const char *name = address->tls && address->name[0] != '\0' ? address->name : address->host;
	char to[300];

	host_write(a->base, sizeof a->base, address->tls ? "https://" : "http://", name,
		   address->port);
	if (name == address->host)
		return true;
	host_write(to, sizeof to, "::", address->host, address->port);
	a->connect_to = curl_slist_append(NULL, to);
	return a->connect_to != NULL &&
	       curl_easy_setopt(a->curl, CURLOPT_CONNECT_TO, a->connect_to) == CURLE_OK;
}

static bool set_file(CURL *c, CURLoption option, const char *file)
{
	return file == NULL || curl_easy_setopt(c, option, file) == CURLE_OK;
}

static bool tls_settings(struct agent_http *a, const struct agent_tls *tls)
{
	return set_file(a->curl, CURLOPT_CAINFO, tls->ca) &&
	       set_file(a->curl, CURLOPT_SSLCERT, tls->cert) &&
	       set_file(a->curl, CURLOPT_SSLKEY, tls->key);
}

static bool field_add(struct agent_http *a, const char *field)
{
	struct curl_slist *fields = curl_slist_append(a->fields, field);

	if (fields != NULL)
		a->fields = fields;
	return fields != NULL;
}

static bool fields_init(struct agent_http *a, const char *token)
{
	struct buf b = {0};
	bool ok = field_add(a, "Content-Type: application/json") &&
		  field_add(a, "Accept: application/json") && field_add(a, "Expect:");

	if (ok && token != NULL) {
		buf_printf(&b, "Authorization: Bearer %s", token);
		buf_add(&b, "", 1);
		ok = !buf_failed(&b) && field_add(a, b.ptr);
	}
	if (b.ptr != NULL)
		memset(b.ptr, 0, b.len);
	buf_release(&b);
	return ok;
}

/* A proxy from the environment must not see the token; a redirect would take it elsewhere. */
static bool curl_settings(struct agent_http *a)
{
	CURL *c = a->curl;

	return curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 5000L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)HTTP_TIMEOUT_MS) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_USERAGENT, "kovactl/" KOVA_VERSION) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->fields) == CURLE_OK;
}

kova_status agent_http_open(const struct address *address, const struct agent_tls *tls,
			    const char *token, struct agent_http **ret_agent)
{
	struct agent_http *a = calloc(1, sizeof *a);

	if (a == NULL)
		return KOVA_ENOMEM;
	a->curl = curl_easy_init();
	if (a->curl == NULL || !base_write(a, address) || !fields_init(a, token) ||
	    !curl_settings(a) || !tls_settings(a, tls)) {
		agent_http_close(a);
		return KOVA_ENOMEM;
	}
	*ret_agent = a;
	return KOVA_OK;
}

void agent_http_close(struct agent_http *a)
{
	if (a == NULL)
		return;
	curl_easy_cleanup(a->curl);
	curl_slist_free_all(a->fields);
	curl_slist_free_all(a->connect_to);
	free(a);
}

void http_answer_release(struct http_answer *answer)
{
	buf_release(&answer->body);
}

static size_t on_body(char *ptr, size_t size, size_t n, void *data)
{
	struct http_answer *answer = data;

	if (answer->body.len + size * n > HTTP_BODY_MAX)
		return 0;
	buf_add(&answer->body, ptr, size * n);
	return buf_failed(&answer->body) ? 0 : size * n;
}

static size_t on_field(char *ptr, size_t size, size_t n, void *data)
{
	struct http_answer *answer = data;
	char text[64];

	if (n > 5 && n < sizeof text && strncasecmp(ptr, "date:", 5) == 0) {
		memcpy(text, ptr + 5, n - 5);
		text[n - 5] = '\0';
		answer->date_s = (int64_t)curl_getdate(text, NULL);
	}
	return size * n;
}

static kova_status perform(struct agent_http *a, struct http_answer *answer,
			   struct agent_error *ret_error)
{
	char why[CURL_ERROR_SIZE] = "";

	curl_easy_setopt(a->curl, CURLOPT_ERRORBUFFER, why);
	CURLcode code = curl_easy_perform(a->curl);
	curl_easy_setopt(a->curl, CURLOPT_ERRORBUFFER, NULL);
	if (code != CURLE_OK) {
		agent_error_set(ret_error, "%s", why[0] != '\0' ? why : curl_easy_strerror(code));
		return code == CURLE_OPERATION_TIMEDOUT ? KOVA_ETIMEDOUT
		       : code == CURLE_WRITE_ERROR      ? KOVA_ETOOBIG
							: KOVA_ECONN;
	}
	curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &answer->code);
	return KOVA_OK;
}

/* The method that curl derives from the presence of a body is overruled by `method`. */
static void request_settings(CURL *c, const char *method, const char *body,
			     struct http_answer *answer)
{
	if (body != NULL)
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	else
		curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_field);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, answer);
}

kova_status agent_http_call(struct agent_http *a, const char *method, const char *target,
			    const json_t *body, struct http_answer *ret_answer,
			    struct agent_error *ret_error)
{
	struct http_answer answer = {.date_s = -1};
	struct buf url = {0};
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	kova_status status = KOVA_ENOMEM;

	buf_printf(&url, "%s%s", a->base, target);
	buf_add(&url, "", 1);
	if (!buf_failed(&url) && (body == NULL || text != NULL)) {
		curl_easy_setopt(a->curl, CURLOPT_URL, url.ptr);
		request_settings(a->curl, method, text, &answer);
		status = perform(a, &answer, ret_error);
	}
	buf_release(&url);
	free(text);
	if (status == KOVA_OK)
		*ret_answer = answer;
	else
		http_answer_release(&answer);
	return status;
}

void http_encode(struct buf *b, const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		    strchr("-._~", c) != NULL)
			buf_add(b, text, 1);
		else
			buf_printf(b, "%%%02X", c);
	}
}
