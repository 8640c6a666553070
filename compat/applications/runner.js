// Runs checks one after the other and prints a line of JSON for each.
"use strict";

// What nobody catches, such as an error of a channel, ends the check that is running.
let giveUp = () => {};
process.on("uncaughtException", (error) => giveUp(error));
process.on("unhandledRejection", (error) => giveUp(error));

function limited(promise, limit) {
  let timer;
  const late = new Promise((_, reject) => {
    giveUp = reject;
    timer = setTimeout(() => reject(new Error(`nothing happened for ${limit / 1000} s`)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function runAll(checks, open, limit) {
  for (const [check, action] of Object.entries(checks)) {
    const { parties, close } = await open(check);
    try {
      await limited(action(...parties), limit);
      console.log(JSON.stringify({ check, passed: true }));
    } catch (error) {
      console.log(JSON.stringify({ check, passed: false, why: String(error.message).split("\n")[0] || "it failed" }));
    }
    await close();
  }
}

// Runs `checks`, each for at most `limit` milliseconds, and ends the process. `open` is called with the name of a check
// and resolves to its arguments (`parties`) and how to `close` them.
exports.run = (checks, open, limit) => {
  runAll(checks, open, limit).then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
};
