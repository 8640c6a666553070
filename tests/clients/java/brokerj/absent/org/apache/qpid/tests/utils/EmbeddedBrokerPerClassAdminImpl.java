package org.apache.qpid.tests.utils;

/** In place of Broker-J's embedded broker: the name of what is used without a setting. */
public interface EmbeddedBrokerPerClassAdminImpl {
    String TYPE = "PENSTOCK";
}
