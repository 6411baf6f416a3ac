#include "io/tls_use.h"

#include "io/listener.h"
#include "io/log.h"

bool tls_use_open(const struct tls_section *conf, struct tls_tickets *tickets,
		  struct tls_server **ret_tls, struct buf *ret_error)
{
	if (conf->cert == NULL || tickets == NULL)
		return true;
	*ret_tls = tls_section_open(conf, tickets, ret_error);
	return *ret_tls != NULL;
}

void tls_use(struct tls_server **tls, struct tls_server *fresh)
{
	tls_server_unref(*tls);
	*tls = fresh;
}

void tls_use_log(const struct tls_server *tls)
{
	log_event(LOG_INFO, "certificate", "clients are served with this certificate",
		  LOG_TEXT_FIELD("certificate", tls_server_text(tls)));
}

void tls_use_warn(const char *option, const char *address)
{
	if (!listener_address_is_local(address))
		log_event(LOG_WARN, "plain_text", "tokens cross the network unencrypted: set `tls`",
			  LOG_TEXT_FIELD("option", option), LOG_TEXT_FIELD("address", address));
}
