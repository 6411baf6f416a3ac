#include "io/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 8, LINE_MAX_BYTES = 1024 };

/* A token lives as long as its auth: connections keep pointers to it over reloads. A certificate's secret is its name, which is none. */
struct entry {
	struct auth_token token; /* first: an entry is its token to the outside */
	struct entry *next;
	unsigned line; /* in the file read last */
	size_t len;
	unsigned char secret[AUTH_TOKEN_MAX]; /* zeros behind len */
};

struct auth {
	struct entry *tokens, *certificates;
	bool required;
};

/* A list that was read and is not in force yet. */
struct reading {
	struct entry *first, **last;
	const char *file;
	unsigned line;
	struct buf *error;
};

static void entries_free(struct entry *e)
{
	while (e != NULL) {
		struct entry *next = e->next;

		explicit_bzero(e->secret, sizeof e->secret);
		free(e);
		e = next;
	}
}

/* ---- Comparison ---- */

/* Looks at every byte of `token`, whatever the first difference; token.len <= AUTH_TOKEN_MAX. */
static unsigned secret_differs(const struct entry *e, struct slice token)
{
	size_t len_differs = e->len ^ token.len;
	unsigned differs = (unsigned)(len_differs | len_differs >> 8) & 0xffU;

	for (size_t i = 0; i < token.len; i++)
		differs |= (unsigned)(e->secret[i] ^ (unsigned char)token.ptr[i]);
	return differs;
}

static struct entry *entry_find(struct entry *first, struct slice token)
{
	struct entry *found = NULL;

	if (token.len == 0 || token.len > AUTH_TOKEN_MAX)
		return NULL;
	for (struct entry *e = first; e != NULL; e = e->next) {
		if (secret_differs(e, token) == 0)
			found = e;
	}
	return found;
}

const struct auth_token *auth_find(const struct auth *a, struct slice token)
{
	const struct entry *e = entry_find(a->tokens, token);

	return e != NULL && e->token.scopes != 0 ? &e->token : NULL;
}

/* ---- Certificates ---- */

/* Of a URI as it is, of another name in lower case; `name` is no longer than AUTH_CERTIFICATE_MAX. */
static void spell(struct slice name, bool is_uri, char ret_text[static AUTH_CERTIFICATE_MAX])
{
	for (size_t i = 0; i < name.len; i++)
		ret_text[i] = !is_uri && name.ptr[i] >= 'A' && name.ptr[i] <= 'Z'
				      ? (char)(name.ptr[i] | ' ')
				      : name.ptr[i];
}

static bool is_uri(struct slice name)
{
	return memchr(name.ptr, ':', name.len) != NULL;
}

const struct auth_token *auth_find_certificate(const struct auth *a, struct slice names)
{
	char text[AUTH_CERTIFICATE_MAX];
	const char *first = names.ptr;

	while (names.len > 0) {
		struct slice rest = slice_cut(&names, '\0');
		struct slice kind = slice_cut(&rest, ':');
		bool uri = slice_equal(kind, SLICE("uri"));
		bool cn = slice_equal(kind, SLICE("cn")) && kind.ptr == first;
		const struct entry *e;

		if ((!uri && !cn && !slice_equal(kind, SLICE("dns"))) || uri != is_uri(rest) ||
		    rest.len > AUTH_CERTIFICATE_MAX)
			continue;
		spell(rest, uri, text);
		e = entry_find(a->certificates, (struct slice){text, rest.len});
		if (e != NULL && e->token.scopes != 0)
			return &e->token;
	}
	return NULL;
}

bool auth_required(const struct auth *a)
{
	return a->required;
}

bool auth_holds(const struct auth *a, const struct auth_token *token, unsigned scopes)
{
	return !a->required ||
	       (token != NULL && token->scopes != 0 && (token->scopes & scopes) == scopes);
}

/* ---- The file ---- */

static bool fault(struct reading *r, const char *what)
{
	buf_printf(r->error, "%s:%u: %s", r->file, r->line, what);
	return false;
}

unsigned auth_scope_named(struct slice word)
{
	if (slice_equal(word, SLICE("check")))
		return AUTH_CHECK;
	if (slice_equal(word, SLICE("admin")))
		return AUTH_ADMIN;
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The words of a line, without its comment; WORDS_MAX + 1 when there are more. */
static size_t split(struct slice line, struct slice words[static WORDS_MAX])
{
	size_t n = 0, i = 0;

	for (;;) {
		size_t from;

		while (i < line.len && is_space(line.ptr[i]))
			i++;
		if (i == line.len || line.ptr[i] == '#')
			return n;
		if (n == WORDS_MAX)
			return WORDS_MAX + 1;
		for (from = i; i < line.len && !is_space(line.ptr[i]);)
			i++;
		words[n++] = (struct slice){line.ptr + from, i - from};
	}
}

static bool valid_name(struct slice name)
{
	if (name.len > AUTH_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      memchr("._-@", c, 4) != NULL))
			return false;
	}
	return true;
}

static bool add_entry(struct reading *r, struct slice name, struct slice token, unsigned scopes)
{
	struct entry *e, *same = entry_find(r->first, token);

	if (token.len > AUTH_TOKEN_MAX)
		return fault(r, "the token is longer than 256 bytes");
	if (name.len > 0 && !valid_name(name))
		return fault(r, "a name has 1 to 64 characters of A-Z a-z 0-9 . _ - @");
	if (same != NULL) {
		buf_printf(r->error, "%s:%u: the same token as in line %u", r->file, r->line,
			   same->line);
		return false;
	}
	e = calloc(1, sizeof *e);
	if (e == NULL)
		return fault(r, kova_status_text(KOVA_ENOMEM));
	if (name.len > 0)
		snprintf(e->token.name, sizeof e->token.name, "%.*s", (int)name.len, name.ptr);
	else
		snprintf(e->token.name, sizeof e->token.name, "line-%u", r->line);
	e->token.scopes = scopes;
	e->line = r->line;
	e->len = token.len;
	memcpy(e->secret, token.ptr, token.len);
	*r->last = e;
	r->last = &e->next;
	return true;
}

static bool read_line(struct reading *r, struct slice line)
{
	struct slice words[WORDS_MAX];
	size_t n = split(line, words);
	unsigned scopes = 0;

	if (n == 0)
		return true;
	if (n <= WORDS_MAX) {
		for (; n > 0 && auth_scope_named(words[n - 1]) != 0; n--)
			scopes |= auth_scope_named(words[n - 1]);
	}
	if (n == 0)
		return fault(r, "there is no token; allowed is [NAME] TOKEN [check|admin]...");
	if (n > 2)
		return fault(r, "too many words, or a scope that is none; allowed is "
				"[NAME] TOKEN [check|admin]...");
	if (scopes == 0)
		scopes = AUTH_CHECK | AUTH_ADMIN;
	return n == 1 ? add_entry(r, (struct slice){0}, words[0], scopes)
		      : add_entry(r, words[0], words[1], scopes);
}

static bool read_lines(struct reading *r, FILE *f)
{
	char line[LINE_MAX_BYTES];
	bool good = true;

	while (good && fgets(line, sizeof line, f) != NULL) {
		size_t len = strlen(line);

		r->line++;
		if (len == sizeof line - 1 && line[len - 1] != '\n')
			good = fault(r, "the line is longer than 1022 bytes");
		else
			good = read_line(r, (struct slice){line, len});
	}
	explicit_bzero(line, sizeof line);
	if (good && ferror(f))
		good = fault(r, strerror(errno));
	if (good && r->first == NULL) {
		buf_printf(r->error,
			   "%s: there is no token in the file; without tokens leave out "
			   "auth.tokens_file",
			   r->file);
		good = false;
	}
	return good;
}

static bool read_file(struct reading *r)
{
	FILE *f = fopen(r->file, "re");
	bool good;

	if (f == NULL) {
		buf_printf(r->error, "%s: %s", r->file, strerror(errno));
		return false;
	}
	(void)setvbuf(f, NULL, _IONBF, 0); /* no copy of the secrets stays in a freed buffer */
	good = read_lines(r, f);
	(void)fclose(f);
	return good;
}

/* ---- Putting it in force ---- */

/* The entries of `fresh` hold, and no others of *list; those known already keep their place. */
static void adopt(struct entry **list, struct entry *fresh)
{
	for (struct entry *e = *list; e != NULL; e = e->next)
		e->token.scopes = 0;
	while (fresh != NULL) {
		struct entry *e = fresh;
		struct slice secret = {(const char *)e->secret, e->len};
		struct entry *known = entry_find(*list, secret);

		fresh = e->next;
		if (known != NULL) {
			known->token = e->token;
			e->next = NULL;
			entries_free(e);
		} else {
			e->next = *list;
			*list = e;
		}
	}
}

/* False: out of memory; what was made is in *ret_first. */
static bool read_certificates(const struct auth_terms *terms, struct entry **ret_first)
{
	for (size_t i = 0; i < terms->n_certificates; i++) {
		const struct auth_certificate *c = &terms->certificates[i];
		struct slice name = slice_of(c->name);
		struct entry *e = calloc(1, sizeof *e);

		if (e == NULL)
			return false;
		snprintf(e->token.name, sizeof e->token.name, "%s", c->name);
		e->token.scopes = c->scopes;
		e->token.is_certificate = true;
		e->len = name.len;
		spell(name, is_uri(name), (char *)e->secret);
		e->next = *ret_first;
		*ret_first = e;
	}
	return true;
}

kova_status auth_reload(struct auth *a, const struct auth_terms *terms, struct buf *ret_error)
{
	struct reading r = {.file = terms->tokens_file, .error = ret_error};
	struct entry *certificates = NULL;
	bool good = read_certificates(terms, &certificates);

	r.last = &r.first;
	if (!good)
		buf_add_text(ret_error, kova_status_text(KOVA_ENOMEM));
	if (!good || (terms->tokens_file != NULL && !read_file(&r))) {
		entries_free(r.first);
		entries_free(certificates);
		return KOVA_ECONFIG;
	}
	a->required = terms->tokens_file != NULL || terms->n_certificates > 0;
	adopt(&a->tokens, r.first);
	adopt(&a->certificates, certificates);
	return KOVA_OK;
}

/* Copies of the entries of `from` that hold, in *ret_first as far as there is memory. */
static bool copy_entries(const struct entry *from, struct entry **ret_first)
{
	struct entry **last = ret_first;

	for (const struct entry *e = from; e != NULL; e = e->next) {
		struct entry *copy;

		if (e->token.scopes == 0)
			continue;
		copy = malloc(sizeof *copy);
		if (copy == NULL)
			return false;
		*copy = *e;
		copy->next = NULL;
		*last = copy;
		last = &copy->next;
	}
	return true;
}

/* Nobody keeps what was taken away. */
static void take_away(struct entry *list, struct entry *from)
{
	for (struct entry *e = list; e != NULL; e = e->next) {
		const struct entry *known =
			entry_find(from, (struct slice){(const char *)e->secret, e->len});

		e->token.scopes &= known != NULL ? known->token.scopes : 0;
	}
}

kova_status auth_follow(struct auth *a, const struct auth *from)
{
	struct entry *tokens = NULL, *certificates = NULL;

	a->required = from->required;
	if (!copy_entries(from->tokens, &tokens) ||
	    !copy_entries(from->certificates, &certificates)) {
		take_away(a->tokens, from->tokens);
		take_away(a->certificates, from->certificates);
		entries_free(tokens);
		entries_free(certificates);
		return KOVA_ENOMEM;
	}
	adopt(&a->tokens, tokens);
	adopt(&a->certificates, certificates);
	return KOVA_OK;
}

struct auth *auth_new(const struct auth_terms *terms, struct buf *ret_error)
{
	struct auth *a = calloc(1, sizeof *a);

	if (a == NULL) {
		buf_add_text(ret_error, kova_status_text(KOVA_ENOMEM));
		return NULL;
	}
	if (auth_reload(a, terms, ret_error) != KOVA_OK) {
		free(a);
		return NULL;
	}
	return a;
}

void auth_free(struct auth *a)
{
	if (a == NULL)
		return;
	entries_free(a->tokens);
	entries_free(a->certificates);
	free(a);
}
