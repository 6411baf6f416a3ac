#include "output.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"
#include "core/quote.h"

/* What output_init() found: set once, read by all. */
static struct {
	bool out_terminal, err_terminal;
	bool colour; /* where it is a terminal */
	bool utf8;
} seen;

void output_init(void)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	setlocale(LC_CTYPE, "");
	seen.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	seen.out_terminal = isatty(STDOUT_FILENO) != 0;
	seen.err_terminal = isatty(STDERR_FILENO) != 0;
	seen.colour = (no_color == NULL || *no_color == '\0') && term != NULL &&
		      strcmp(term, "dumb") != 0;
}

bool output_is_terminal(const FILE *file)
{
	return file == stderr ? seen.err_terminal : seen.out_terminal;
}

bool output_is_utf8(void)
{
	return seen.utf8;
}

unsigned output_columns(void)
{
	struct winsize size;

	if (!seen.out_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

const char *paint(const FILE *file, enum paint paint)
{
	static const char *const codes[] = {
		[PAINT_PLAIN] = "\x1b[0m", [PAINT_BOLD] = "\x1b[1m",  [PAINT_DIM] = "\x1b[2m",
		[PAINT_GOOD] = "\x1b[32m", [PAINT_WARN] = "\x1b[33m", [PAINT_BAD] = "\x1b[31m",
	};

	return seen.colour && output_is_terminal(file) ? codes[paint] : "";
}

void output_safe(struct buf *b, struct slice text)
{
	for (size_t at = 0; at < text.len;) {
		unsigned char c = (unsigned char)text.ptr[at];
		size_t len = quote_utf8_length((struct slice){text.ptr + at, text.len - at});
		/* U+0080 to U+009F are control characters too. */
		bool control = c < 0x20 || c == 0x7f ||
			       (len == 2 && c == 0xc2 && (unsigned char)text.ptr[at + 1] < 0xa0);

		if (len == 0 || control) {
			buf_printf(b, "\\x%02x", c);
			at++;
		} else {
			buf_add(b, text.ptr + at, len);
			at += len;
		}
	}
}

void output_text(FILE *file, const char *text)
{
	struct buf b = {0};

	output_safe(&b, slice_of(text));
	if (!buf_failed(&b) && b.len > 0)
		fwrite(b.ptr, 1, b.len, file);
	buf_release(&b);
}

static void __attribute__((format(printf, 2, 0)))
say(const char *before, const char *format, va_list list)
{
	char text[1024];

	vsnprintf(text, sizeof text, format, list);
	fputs(before, stderr);
	output_text(stderr, text);
	fputc('\n', stderr);
}

void complain(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "%skovactl:%s ", paint(stderr, PAINT_BAD), paint(stderr, PAINT_PLAIN));
	va_start(list, format);
	say("", format, list);
	va_end(list);
}

void hint(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say("         ", format, list);
	va_end(list);
}

void output_bar(FILE *file, uint64_t part, uint64_t whole, unsigned width)
{
	unsigned full = 0;

	if (part > whole)
		part = whole;
	if (part > 0) /* whole is at most 10^9: the product fits */
		full = (unsigned)(part * width / whole);
	if (part > 0 && full == 0)
		full = 1;
	for (unsigned i = 0; i < width; i++) {
		if (i == full)
			fputs(paint(file, PAINT_DIM), file);
		fputs(i < full ? (seen.utf8 ? "█" : "#") : (seen.utf8 ? "░" : "."), file);
	}
	fputs(paint(file, PAINT_PLAIN), file);
}

static int print_json(json_t *json, size_t flags)
{
	char *text = json == NULL ? NULL : json_dumps(json, flags | JSON_ENCODE_ANY);

	json_decref(json);
	if (text == NULL) {
		complain("out of memory");
		return EXIT_USAGE;
	}
	puts(text);
	free(text);
	return EXIT_ALLOWED;
}

int output_json(json_t *json)
{
	return print_json(json, JSON_COMPACT);
}

int output_json_indented(json_t *json)
{
	return print_json(json, JSON_INDENT(2));
}
