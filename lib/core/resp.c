#include "core/resp.h"

#include <assert.h>
#include <stdio.h>

#include "core/hex.h"

enum { NUMBER_DIGITS_MAX = 10 }; /* more than any length that is allowed has */

static kova_status protocol_error(struct resp_command *cmd, const char *what)
{
	snprintf(cmd->error, sizeof cmd->error, "Protocol error: %s", what);
	return KOVA_EPROTO;
}

/*
 * The number and the line end at bytes[*at]. Tells a wrong byte at once, even if the line is not
 * whole. Moves *at behind the line end only on KOVA_OK.
 */
static kova_status parse_length(struct slice bytes, size_t *at, int64_t *ret_value)
{
	size_t i = *at, first;
	bool negative = false;
	int64_t value = 0;

	if (i < bytes.len && bytes.ptr[i] == '-') {
		negative = true;
		i++;
	}
	for (first = i; i < bytes.len; i++) {
		unsigned digit = (unsigned)(unsigned char)bytes.ptr[i] - '0';

		if (digit > 9)
			break;
		if (i - first >= NUMBER_DIGITS_MAX || (i > first && value == 0))
			return KOVA_EPROTO;
		value = value * 10 + digit;
	}
	if (i == bytes.len)
		return KOVA_AGAIN;
	if (i == first || bytes.ptr[i] != '\r')
		return KOVA_EPROTO;
	if (++i == bytes.len)
		return KOVA_AGAIN;
	if (bytes.ptr[i] != '\n')
		return KOVA_EPROTO;
	*at = i + 1;
	*ret_value = negative ? -value : value;
	return KOVA_OK;
}

static kova_status parse_array_head(struct resp_parser *p, struct slice bytes,
				    struct resp_command *cmd)
{
	size_t at = 1; /* '*' */
	int64_t n;
	kova_status st = parse_length(bytes, &at, &n);

	if (st == KOVA_AGAIN)
		return st;
	if (st != KOVA_OK || n > RESP_ARGS_MAX)
		return protocol_error(cmd, "invalid multibulk length");
	p->at = at;
	p->in_array = true;
	p->n_args = n > 0 ? (uint32_t)n : 0;
	return KOVA_OK;
}

static kova_status expected_bulk(struct resp_command *cmd, char got)
{
	char what[] = "expected '$', got '?'";
	bool printable = got >= ' ' && got <= '~';

	what[sizeof what - 3] = printable ? got : '?';
	return protocol_error(cmd, what);
}

/* One argument at p->at: "$<length>\r\n<bytes>\r\n". */
static kova_status parse_bulk(struct resp_parser *p, struct slice bytes, struct resp_command *cmd)
{
	size_t at = p->at;
	int64_t len;
	kova_status st;

	if (at >= bytes.len)
		return KOVA_AGAIN;
	if (bytes.ptr[at] != '$')
		return expected_bulk(cmd, bytes.ptr[at]);
	at++;
	st = parse_length(bytes, &at, &len);
	if (st == KOVA_AGAIN)
		return st;
	if (st != KOVA_OK || len < 0 || len > RESP_BULK_MAX)
		return protocol_error(cmd, "invalid bulk length");
	if (at + (size_t)len + 2 > RESP_COMMAND_MAX)
		return protocol_error(cmd, "too big command");
	if (bytes.len - at > (size_t)len && bytes.ptr[at + (size_t)len] != '\r')
		return protocol_error(cmd, "expected a line end after a bulk string");
	if (bytes.len - at < (size_t)len + 2)
		return KOVA_AGAIN;
	if (bytes.ptr[at + (size_t)len + 1] != '\n')
		return protocol_error(cmd, "expected a line end after a bulk string");
	cmd->argv[p->args_seen++] = (struct slice){bytes.ptr + at, (size_t)len};
	p->at = at + (size_t)len + 2;
	return KOVA_OK;
}

static kova_status parse_array(struct resp_parser *p, struct slice bytes, struct resp_command *cmd)
{
	bool resumed = p->args_seen != 0;
	kova_status st = KOVA_OK;

	if (!p->in_array)
		st = parse_array_head(p, bytes, cmd);
	while (st == KOVA_OK && p->args_seen < p->n_args)
		st = parse_bulk(p, bytes, cmd);
	if (st != KOVA_OK)
		return st;
	if (resumed) {
		/* The first arguments were seen in an earlier call, and cmd and the input's place
		 * have changed since: read the headers once more, now that all is there. */
		*p = (struct resp_parser){0};
		return parse_array(p, bytes, cmd);
	}
	cmd->argc = p->n_args;
	return KOVA_OK;
}

/* ---- Inline commands: words by the quoting rules of Redis (sdssplitargs). ---- */

struct words {
	const char *at, *end; /* of the line */
	char *to;             /* in cmd->text: never longer than what was read */
};

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* What `\c` stands for in double quotes. */
static char unescape(char c)
{
	static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
	const char *hit = memchr(from, c, sizeof from - 1);

	return hit == NULL ? c : to[hit - from];
}

/* The escape at w->at, which is a backslash with at least one byte behind it. */
static void word_escape(struct words *w)
{
	if (w->end - w->at >= 4 && w->at[1] == 'x' && hex_value(w->at[2]) >= 0 &&
	    hex_value(w->at[3]) >= 0) {
		*w->to++ = (char)(hex_value(w->at[2]) * 16 + hex_value(w->at[3]));
		w->at += 4;
		return;
	}
	*w->to++ = unescape(w->at[1]);
	w->at += 2;
}

/* From behind an opening quote through the closing one, which must end the word. */
static bool word_quoted(struct words *w, char quote)
{
	while (w->at < w->end && *w->at != quote) {
		bool escape = *w->at == '\\' && w->end - w->at >= 2;

		if (escape && quote == '"') {
			word_escape(w);
		} else if (escape && w->at[1] == '\'') {
			*w->to++ = '\'';
			w->at += 2;
		} else {
			*w->to++ = *w->at++;
		}
	}
	if (w->at == w->end)
		return false;
	w->at++;
	return w->at == w->end || is_space(*w->at);
}

static bool word_read(struct words *w)
{
	while (w->at < w->end && !is_space(*w->at)) {
		char c = *w->at++;

		if (c == '"' || c == '\'') {
			if (!word_quoted(w, c))
				return false;
		} else {
			*w->to++ = c;
		}
	}
	return true;
}

static kova_status split_words(struct slice line, struct resp_command *cmd)
{
	struct words w = {.at = line.ptr, .end = line.ptr + line.len, .to = cmd->text};

	cmd->argc = 0;
	for (;;) {
		char *word = w.to;

		while (w.at < w.end && is_space(*w.at))
			w.at++;
		if (w.at == w.end)
			return KOVA_OK;
		if (cmd->argc == RESP_ARGS_MAX)
			return protocol_error(cmd, "too many arguments");
		if (!word_read(&w))
			return protocol_error(cmd, "unbalanced quotes in request");
		cmd->argv[cmd->argc++] = (struct slice){word, (size_t)(w.to - word)};
	}
}

static kova_status parse_inline(struct resp_parser *p, struct slice bytes, struct resp_command *cmd)
{
	size_t window = bytes.len < RESP_INLINE_MAX ? bytes.len : RESP_INLINE_MAX;
	const char *end = memchr(bytes.ptr + p->at, '\n', window - p->at);
	struct slice line;

	if (end == NULL) {
		p->at = window;
		return window < RESP_INLINE_MAX ? KOVA_AGAIN
						: protocol_error(cmd, "too big inline request");
	}
	line = (struct slice){bytes.ptr, (size_t)(end - bytes.ptr)};
	p->at = line.len + 1;
	return split_words(line, cmd);
}

kova_status resp_parse(struct resp_parser *p, struct slice bytes, struct resp_command *cmd,
		       size_t *ret_used)
{
	kova_status st;

	assert(p->at <= bytes.len);
	if (bytes.len == 0)
		return KOVA_AGAIN;
	st = bytes.ptr[0] == '*' ? parse_array(p, bytes, cmd) : parse_inline(p, bytes, cmd);
	if (st != KOVA_OK)
		return st;
	*ret_used = p->at;
	*p = (struct resp_parser){0};
	return KOVA_OK;
}

kova_status resp_integer(struct slice text, int64_t *ret_value)
{
	bool negative = text.len > 0 && text.ptr[0] == '-';
	size_t i = negative;
	uint64_t max = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	uint64_t value = 0;
	bool overflow = false;

	if (i == text.len || (text.ptr[i] == '0' && text.len > 1))
		return KOVA_EPROTO;
	for (; i < text.len; i++) {
		unsigned digit = (unsigned)(unsigned char)text.ptr[i] - '0';

		if (digit > 9)
			return KOVA_EPROTO;
		if (value > (max - digit) / 10)
			overflow = true;
		else
			value = value * 10 + digit;
	}
	if (overflow)
		return KOVA_ERANGE;
	*ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
	return KOVA_OK;
}

bool resp_word_is(struct slice word, const char *lower)
{
	size_t i;

	for (i = 0; i < word.len; i++) {
		char c = word.ptr[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		if (c != lower[i] || c == '\0')
			return false;
	}
	return lower[i] == '\0';
}

/* ---- Writers ---- */

/* "<type><number>\r\n" */
static void write_head(struct buf *b, char type, int64_t value)
{
	char text[24];
	size_t at = sizeof text;
	uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;

	text[--at] = '\n';
	text[--at] = '\r';
	do {
		text[--at] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest != 0);
	if (value < 0)
		text[--at] = '-';
	text[--at] = type;
	buf_add(b, text + at, sizeof text - at);
}

void resp_write_simple(struct buf *b, const char *text)
{
	buf_add(b, "+", 1);
	buf_add_text(b, text);
	buf_add(b, "\r\n", 2);
}

void resp_write_error(struct buf *b, const char *code, const char *text)
{
	size_t from;

	buf_add(b, "-", 1);
	buf_add_text(b, code);
	buf_add(b, " ", 1);
	from = b->len;
	buf_add_text(b, text);
	for (size_t i = from; i < b->len; i++) {
		if (b->ptr[i] == '\r' || b->ptr[i] == '\n')
			b->ptr[i] = ' ';
	}
	buf_add(b, "\r\n", 2);
}

void resp_write_int(struct buf *b, int64_t value)
{
	write_head(b, ':', value);
}

void resp_write_bulk(struct buf *b, struct slice bytes)
{
	write_head(b, '$', (int64_t)bytes.len);
	buf_add_slice(b, bytes);
	buf_add(b, "\r\n", 2);
}

void resp_write_bulk_text(struct buf *b, const char *text)
{
	resp_write_bulk(b, slice_of(text));
}

void resp_write_null(struct buf *b, int version)
{
	if (version == 3)
		buf_add(b, "_\r\n", 3);
	else
		buf_add(b, "$-1\r\n", 5);
}

void resp_write_array(struct buf *b, uint32_t n)
{
	write_head(b, '*', n);
}

void resp_write_map(struct buf *b, int version, uint32_t n)
{
	if (version == 3)
		write_head(b, '%', n);
	else
		write_head(b, '*', 2 * (int64_t)n);
}

void resp_write_set(struct buf *b, int version, uint32_t n)
{
	write_head(b, version == 3 ? '~' : '*', n);
}

void resp_write_verbatim(struct buf *b, int version, struct slice text)
{
	if (version != 3) {
		resp_write_bulk(b, text);
		return;
	}
	write_head(b, '=', (int64_t)text.len + 4);
	buf_add(b, "txt:", 4);
	buf_add_slice(b, text);
	buf_add(b, "\r\n", 2);
}
