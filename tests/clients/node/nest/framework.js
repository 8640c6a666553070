// NestJS from a folder with its packages, its classes decorated without a compiler: what hold.js and the checks of
// compat/applications share.
"use strict";

const { createRequire } = require("module");

exports.load = (folder) => {
  const from = createRequire(`${folder}/`);
  from("reflect-metadata");
  const { NestFactory } = from("@nestjs/core");
  const { Module, Controller } = from("@nestjs/common");
  const nest = from("@nestjs/microservices");
  const { firstValueFrom } = from("rxjs");
  const { version } = from("@nestjs/microservices/package.json");

  // A microservice whose handlers are functions of (data, context) by pattern; `kind` is EventPattern or MessagePattern.
  async function serve(options, kind, handlers) {
    class Handlers {}
    for (const [pattern, handle] of Object.entries(handlers)) {
      Handlers.prototype[pattern] = handle;
      const descriptor = Object.getOwnPropertyDescriptor(Handlers.prototype, pattern);
      nest[kind](pattern)(Handlers.prototype, pattern, descriptor);
      nest.Payload()(Handlers.prototype, pattern, 0);
      nest.Ctx()(Handlers.prototype, pattern, 1);
    }
    Controller()(Handlers);
    class Root {}
    Module({ controllers: [Handlers] })(Root);
    const app = await NestFactory.createMicroservice(Root, { transport: nest.Transport.RMQ, options, logger: false });
    await app.listen();
    return app;
  }

  const client = (options) => nest.ClientProxyFactory.create({ transport: nest.Transport.RMQ, options });
  return { serve, client, first: firstValueFrom, version, nest };
};
