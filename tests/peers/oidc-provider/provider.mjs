// A real OpenID provider for the tests of the sign-in. Prints its issuer, then serves until it is ended.
// Everyone is who they say they are: its own pages for developers ask for a name and a password.
//
//   node provider.mjs PUBLIC_URL_OF_THE_GATEWAY
//
// STATEWAY_OIDC_PROVIDER names the module `oidc-provider`.
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const { default: Provider } = await import(pathToFileURL(process.env.STATEWAY_OIDC_PROVIDER));
const gateway = process.argv[2];

const configuration = {
  clients: [
    {
      client_id: "stateway-dashboard",
      client_secret: "a secret/with+signs that is long enough",
      redirect_uris: [`${gateway}/sign-in/callback`],
      post_logout_redirect_uris: [`${gateway}/sign-in`],
    },
    {
      client_id: "stateway-cli",
      application_type: "native",
      token_endpoint_auth_method: "none",
      redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    },
  ],
  claims: { openid: ["sub", "roles", "tenant"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of the tests"] },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
  },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, roles: id === "eve" ? [] : ["ops"], tenant: "acme" }),
  }),
  pkce: { required: () => true },
  ttl: { IdToken: 3600, AccessToken: 3600, DeviceCode: 600, Session: 3600, Grant: 3600, Interaction: 600, RefreshToken: 3600 },
};

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration);
  provider.on("server_error", (_, error) => console.error(error));
  server.on("request", provider.callback());
  console.log(`issuer ${issuer}`);
});
