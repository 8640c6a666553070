package org.apache.qpid.tests.utils;

/** In place of Broker-J's own, which needs its embedded broker. */
public @interface AddOAuth2MockProvider { }
