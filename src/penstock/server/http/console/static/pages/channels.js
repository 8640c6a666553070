// The list of channels and sessions.

export { openChannels as open } from "./connections.js";
