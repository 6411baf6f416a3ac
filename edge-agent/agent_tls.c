#include "agent_tls.h"

#include "io/log.h"
#include "listener.h"

bool agent_tls_open(const struct edge_conf *conf, struct tls_tickets *tickets,
		    struct tls_server **ret_tls, struct buf *ret_error)
{
	if (conf->tls.cert == NULL || tickets == NULL)
		return true;
	*ret_tls = tls_section_open(&conf->tls, tickets, ret_error);
	return *ret_tls != NULL;
}

void agent_tls_use(struct agent *a, struct tls_server *tls)
{
	tls_server_unref(a->tls);
	a->tls = tls;
	if (a->owner == NULL)
		log_event(LOG_INFO, "certificate", "clients are served with this certificate",
			  LOG_TEXT_FIELD("certificate", tls_server_text(tls)));
}

void agent_tls_warn(const struct edge_conf *conf, const char *option, const char *address)
{
	if (conf->tokens_file != NULL && !listener_address_is_local(address))
		log_event(LOG_WARN, "plain_text", "tokens cross the network unencrypted: set `tls`",
			  LOG_TEXT_FIELD("option", option), LOG_TEXT_FIELD("address", address));
}
