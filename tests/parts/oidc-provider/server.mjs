// An OpenID Connect provider for tests: node server.mjs FOLDER PORT CLIENTS
// FOLDER contains node_modules. CLIENTS is the JSON of the registered clients.
// PUT /users replaces the users: {"name": {"email": ..., "email_verified": ..., "amr": [...]}}.
import { createServer } from "node:http";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";
import { text } from "node:stream/consumers";

const [folder, port, clients] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`));
const issuer = `http://127.0.0.1:${port}`;
let users = {};
const provider = createProvider();

function signingKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), alg: "RS256", use: "sig" };
}

function createProvider() {
  const created = new Provider(issuer, {
    clients: JSON.parse(clients),
    jwks: { keys: [signingKey()] },
    cookies: { keys: ["tests"] },
    claims: { openid: ["sub", "amr"], email: ["email", "email_verified"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...users[id] }) }),
    // Users need not consent.
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({
        clientId: ctx.oidc.client.clientId,
        accountId: ctx.oidc.session.accountId,
      });
      grant.addOIDCScope("openid email");
      await grant.save();
      return grant;
    },
  });
  return created;
}

const page = `<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,">
<form method="post"><label>User <input name="user" autofocus></label>
<button name="action" value="login">Log in</button><button name="action" value="cancel">Cancel</button></form></html>`;

async function interact(request, response) {
  if (request.method === "GET") {
    response.setHeader("content-type", "text/html");
    response.end(page);
    return;
  }
  const form = new URLSearchParams(await text(request));
  const user = form.get("user");
  const result =
    form.get("action") === "cancel"
      ? { error: "access_denied", error_description: "The user canceled." }
      : { login: { accountId: user, amr: users[user]?.amr ?? ["pwd"] } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

createServer(async (request, response) => {
  if (request.url.startsWith("/interaction/")) {
    await interact(request, response);
  } else if (request.method === "PUT" && request.url === "/users") {
    users = JSON.parse(await text(request));
    response.end();
  } else {
    await provider.callback()(request, response);
  }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
