#include "session.h"

#include <stdlib.h>

#include "agent_info.h"
#include "command.h"
#include "output.h"
#include "token.h"

void session_release(struct session *s)
{
	agent_resp_close(s->resp);
	agent_http_close(s->http);
	token_free(s->token);
	*s = (struct session){0};
}

const char *session_agent_text(const struct session *s)
{
	const char *environment = getenv("KOVA_AGENT");

	if (s->agent_text != NULL)
		return s->agent_text;
	return environment != NULL && *environment != '\0' ? environment : AGENT_DEFAULT;
}

static const char *setting(const char *option, const char *variable)
{
	const char *environment = getenv(variable);

	if (option != NULL)
		return option;
	return environment != NULL && *environment != '\0' ? environment : NULL;
}

/* A file to use says as well that there is to be TLS. False: said on stderr. */
static bool settle_tls(struct session *s)
{
	struct agent_tls *tls = &s->tls;

	tls->ca = setting(tls->ca, "KOVA_CA");
	tls->cert = setting(tls->cert, "KOVA_CERT");
	tls->key = setting(tls->key, "KOVA_KEY");
	if ((tls->cert == NULL) != (tls->key == NULL)) {
		complain("--cert and --key (or KOVA_CERT and KOVA_KEY) belong together");
		return false;
	}
	if (!s->address.is_unix && (tls->on || tls->ca != NULL || tls->cert != NULL))
		s->address.tls = true;
	return true;
}

int session_settle(struct session *s)
{
	const char *text = session_agent_text(s);
	struct agent_error error;

	if (s->settled)
		return EXIT_ALLOWED;
	if (address_parse(slice_of(text), &s->address) != KOVA_OK) {
		complain("%s must be " ADDRESS_FORMS ", not \"%s\"",
			 s->agent_text != NULL ? "--agent" : "KOVA_AGENT", text);
		return EXIT_USAGE;
	}
	if (!settle_tls(s))
		return EXIT_USAGE;
	kova_status status = token_read(s->token_file, &s->token, &error);
	if (status != KOVA_OK) {
		complain("%s", status == KOVA_ENOMEM ? kova_status_text(status) : error.text);
		return EXIT_USAGE;
	}
	s->settled = true;
	return EXIT_ALLOWED;
}

static int refused_token(const struct session *s, const struct agent_error *e)
{
	if (s->token == NULL) {
		complain("%s", e->text);
		hint("this agent wants a token: --token-file FILE or KOVA_TOKEN");
	} else if (strncmp(e->text, "NOPERM", 6) == 0) {
		complain("%s", e->text);
	} else {
		complain("the agent at %s does not know this token", session_agent_text(s));
	}
	return EXIT_USAGE;
}

int session_failed(const struct session *s, kova_status status, const struct agent_error *e)
{
	switch ((int)status) {
	case KOVA_EAUTH:
		return refused_token(s, e);
	case KOVA_EREPLY:
		complain("%s", e->text);
		if (strncmp(e->text, "NOPOLICY", 8) == 0)
			hint("kovactl policies shows those that there are");
		if (strstr(e->text, "speaks TLS only") != NULL)
			hint("--ca FILE, or --tls, or --agent rediss://HOST:PORT");
		if (strncmp(e->text, "NOPOOL", 6) == 0)
			hint("kovactl pool shows those that there are");
		return EXIT_USAGE;
	case KOVA_ENOMEM:
		complain("out of memory");
		return EXIT_USAGE;
	default:
		complain("no answer from the agent at %s: %s", session_agent_text(s), e->text);
		if (strncmp(e->text, "TLS: ", 5) == 0)
			hint("--ca FILE names the authority of its certificate, which must be for "
			     "the host in --agent");
		else
			hint(status == KOVA_EPROTO
				     ? "it does not speak RESP: is this the agent's HTTP address?"
				     : "is kova-agent running there? kovactl doctor looks closer");
		return EXIT_UNREACHABLE;
	}
}

int session_connect(struct session *s)
{
	struct agent_error error = {"out of memory"};
	int exit_status = session_settle(s);

	if (exit_status != EXIT_ALLOWED || s->resp != NULL)
		return exit_status;
	kova_status status = agent_resp_open(&s->address, &s->tls, s->token, &s->resp, &error);
	return status == KOVA_OK ? EXIT_ALLOWED : session_failed(s, status, &error);
}

void session_disconnect(struct session *s)
{
	agent_resp_close(s->resp);
	s->resp = NULL;
}

int session_call(struct session *s, const struct resp_words *words, uint64_t within_ms,
		 redisReply **ret_reply)
{
	struct agent_error error = {"out of memory"};
	int exit_status = session_connect(s);

	if (exit_status != EXIT_ALLOWED)
		return exit_status;
	kova_status status = agent_resp_call(s->resp, words, within_ms, ret_reply, &error);
	if (status == KOVA_OK)
		return EXIT_ALLOWED;
	exit_status = session_failed(s, status, &error);
	if (exit_status == EXIT_UNREACHABLE)
		session_disconnect(s);
	return exit_status;
}

/* ---- HTTP ---- */

static int open_http_at(struct session *s, struct slice info)
{
	struct address address;

	kova_status status = info_http_address(info, &s->address, &address);
	if (status == KOVA_EAUTH) {
		complain("the HTTP side of the agent at %s speaks no TLS, and is not on this "
			 "machine",
			 session_agent_text(s));
		hint("a token would cross the network in the clear; see its tls.fronts");
		return EXIT_USAGE;
	}
	if (status != KOVA_OK) {
		complain("the agent at %s tells no HTTP address", session_agent_text(s));
		hint("this command needs \"listen\": {\"http\": \"HOST:PORT\"} in its "
		     "configuration");
		return EXIT_UNREACHABLE;
	}
	if (agent_http_open(&address, &s->tls, s->token, &s->http) != KOVA_OK) {
		complain("out of memory");
		return EXIT_USAGE;
	}
	return EXIT_ALLOWED;
}

static int open_http(struct session *s)
{
	struct resp_words words = {0};
	redisReply *reply;

	if (s->http != NULL)
		return EXIT_ALLOWED;
	resp_words_add(&words, "INFO");
	int exit_status = session_call(s, &words, RESP_TIMEOUT_MS, &reply);
	if (exit_status != EXIT_ALLOWED)
		return exit_status;
	struct slice info = {0};
	if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_VERB)
		info = (struct slice){reply->str, reply->len};
	exit_status = open_http_at(s, info);
	freeReplyObject(reply);
	return exit_status;
}

/* Problem details (RFC 9457): `detail` says it best, then `title`. */
static int said_no(const struct session *s, const struct http_answer *answer, const json_t *body)
{
	const char *detail = json_string_value(json_object_get(body, "detail"));
	const char *title = json_string_value(json_object_get(body, "title"));

	if (detail == NULL)
		detail = title;
	if (detail != NULL)
		complain("%s", detail);
	else
		complain("the agent answered with HTTP status %ld", answer->code);
	if (answer->code == 401 && s->token == NULL)
		hint("this agent wants a token: --token-file FILE or KOVA_TOKEN");
	return answer->code >= 500 ? EXIT_UNREACHABLE : EXIT_USAGE;
}

static int judge(const struct session *s, const struct http_answer *answer, json_t **ret_body)
{
	json_t *body = answer->body.len == 0 ? NULL
					     : json_loadb(answer->body.ptr, answer->body.len,
							  JSON_ALLOW_NUL, NULL);

	if (answer->code < 200 || answer->code > 299) {
		int exit_status = said_no(s, answer, body);
		json_decref(body);
		return exit_status;
	}
	if (body == NULL && answer->body.len > 0) {
		complain("the agent's HTTP answer is not JSON");
		return EXIT_UNREACHABLE;
	}
	if (ret_body != NULL)
		*ret_body = body;
	else
		json_decref(body);
	return EXIT_ALLOWED;
}

int session_http(struct session *s, const char *method, const char *target, const json_t *body,
		 json_t **ret_body)
{
	struct agent_error error = {"out of memory"};
	struct http_answer answer;
	int exit_status = open_http(s);

	if (exit_status != EXIT_ALLOWED)
		return exit_status;
	kova_status status = agent_http_call(s->http, method, target, body, &answer, &error);
	if (status != KOVA_OK)
		return session_failed(s, status, &error);
	s->http_code = answer.code;
	exit_status = judge(s, &answer, ret_body);
	http_answer_release(&answer);
	return exit_status;
}

int session_http_get(struct session *s, const char *path, const char *policy, const char *key,
		     json_t **ret_body)
{
	struct buf target = {0};
	int exit_status = EXIT_USAGE;

	buf_add_text(&target, path);
	if (policy != NULL) {
		buf_add_text(&target, "?policy=");
		http_encode(&target, policy);
	}
	if (key != NULL) {
		buf_add_text(&target, policy != NULL ? "&key=" : "?key=");
		http_encode(&target, key);
	}
	buf_add(&target, "", 1);
	if (buf_failed(&target))
		complain("out of memory");
	else
		exit_status = session_http(s, "GET", target.ptr, NULL, ret_body);
	buf_release(&target);
	return exit_status;
}
