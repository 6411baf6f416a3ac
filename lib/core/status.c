#include "core/status.h"

const char *kova_status_text(kova_status status)
{
	switch (status) {
#define X(name, value, text) \
	case name:           \
		return text;
		KOVA_STATUSES(X)
#undef X
	}
	return "unknown status";
}
