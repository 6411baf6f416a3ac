#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/request_bounds.h"

enum { TEXT_MAX = 4096 }; /* a token, and blanks around it */

/*
 * The one word in `text`, which is changed; NULL: there is none, more than one, or a character
 * that no token has.
 */
static char *one_word(char *text)
{
	static const char space[] = " \t\r\n";
	char *word = text + strspn(text, space);
	size_t len = strcspn(word, space);

	if (len == 0 || word[len + strspn(word + len, space)] != '\0')
		return NULL;
	word[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)word[i] < 0x21 || (unsigned char)word[i] > 0x7e)
			return NULL;
	return word;
}

static kova_status copy_word(char *text, const char *from, char **ret_token,
			     struct agent_error *ret_error)
{
	char *word = one_word(text);

	if (word == NULL) {
		agent_error_set(ret_error, "%s must hold one token, a word without spaces", from);
		return KOVA_EPROTO;
	}
	if (strlen(word) > REQUEST_TOKEN_MAX) {
		agent_error_set(ret_error, "%s holds a token longer than %d bytes", from,
				REQUEST_TOKEN_MAX);
		return KOVA_ETOOBIG;
	}
	char *token = strdup(word);
	if (token == NULL)
		return KOVA_ENOMEM;
	*ret_token = token;
	return KOVA_OK;
}

kova_status token_read(const char *file, char **ret_token, struct agent_error *ret_error)
{
	const char *name = file != NULL ? file : "KOVA_TOKEN";
	const char *environment = getenv("KOVA_TOKEN");
	char text[TEXT_MAX + 2];

	if (file != NULL) {
		FILE *f = fopen(file, "re");
		size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;

		if (f == NULL || ferror(f)) {
			agent_error_set(ret_error, "%s: %s", file, strerror(errno));
			if (f != NULL)
				fclose(f);
			return KOVA_EIO;
		}
		fclose(f);
		text[n] = '\0';
	} else if (environment != NULL && *environment != '\0') {
		snprintf(text, sizeof text, "%s", environment);
	} else {
		*ret_token = NULL;
		return KOVA_OK;
	}
	kova_status status = KOVA_ETOOBIG;
	if (strlen(text) > TEXT_MAX)
		agent_error_set(ret_error, "%s holds more than a token", name);
	else
		status = copy_word(text, name, ret_token, ret_error);
	explicit_bzero(text, sizeof text);
	return status;
}

void token_free(char *token)
{
	if (token == NULL)
		return;
	explicit_bzero(token, strlen(token));
	free(token);
}
