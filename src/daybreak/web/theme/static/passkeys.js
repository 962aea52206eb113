// Passkeys: forms with `data-passkey` ask the browser for a passkey and send its response.
//
// `data-passkey` is `create` or `get`. `data-options` is the URL that returns the options for one attempt. Such a form is
// hidden until this script finds that the browser supports passkeys.

const MESSAGES = {
  create: {
    NotAllowedError: "No passkey was created: the dialog was closed, or it timed out. Try again.",
    InvalidStateError: "This device already has a passkey for you.",
    NotSupportedError: "This device cannot create a suitable passkey. Use another one.",
    other: "The passkey could not be created. Try again.",
  },
  get: {
    NotAllowedError: "No passkey was used: the dialog was closed, it timed out, or this device has none of yours. Try again, or enter a code.",
    other: "The passkey could not be used. Try again, or enter a code.",
  },
};
const WRONG_ADDRESS = "Passkeys work at the public address of this service only.";
const NO_OPTIONS = "The service did not answer as expected. Reload the page and try again.";

// --- JSON: built into current browsers, converted here for older ones -------------------------
const fromBase64url = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
const toBase64url = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const descriptors = (list = []) => list.map((each) => ({ ...each, id: fromBase64url(each.id) }));

function parseOptions(kind, options) {
  const builtIn = kind === "create" ? PublicKeyCredential.parseCreationOptionsFromJSON : PublicKeyCredential.parseRequestOptionsFromJSON;
  if (builtIn) return builtIn.call(PublicKeyCredential, options);
  const challenge = fromBase64url(options.challenge);
  if (kind === "get") return { ...options, challenge, allowCredentials: descriptors(options.allowCredentials) };
  const user = { ...options.user, id: fromBase64url(options.user.id) };
  return { ...options, challenge, user, excludeCredentials: descriptors(options.excludeCredentials) };
}

function toJson(credential) {
  if (credential.toJSON) return credential.toJSON();
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = toBase64url(credential.response[name]);
  }
  const { id, type } = credential;
  return { id, rawId: toBase64url(credential.rawId), type, response, clientExtensionResults: {} };
}

// --- Forms ------------------------------------------------------------------------------------
class OptionsError extends Error {}

/** Return the options for one attempt, or null if the service sends the user to another page, such as sign-in. */
async function fetchOptions(form) {
  const response = await fetch(form.dataset.options, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  if (response.redirected) {
    location.assign(response.url);
    return null;
  }
  if (!response.ok) throw new OptionsError(response.status);
  return response.json();
}

function messageOf(kind, error) {
  if (error instanceof OptionsError || error instanceof TypeError || error instanceof SyntaxError) return NO_OPTIONS;
  if (error.name === "SecurityError") return WRONG_ADDRESS;
  return MESSAGES[kind][error.name] ?? MESSAGES[kind].other;
}

async function askForPasskey(form) {
  const kind = form.dataset.passkey;
  const button = form.querySelector("button[type=submit]");
  const message = form.querySelector("[data-passkey-message]");
  message.hidden = true;
  button.setAttribute("aria-disabled", "true");
  try {
    const options = await fetchOptions(form);
    if (!options) return;
    const publicKey = parseOptions(kind, options);
    const credential = await navigator.credentials[kind]({ publicKey });
    form.elements.response.value = JSON.stringify(toJson(credential));
    form.submit();
  } catch (error) {
    message.textContent = messageOf(kind, error);
    message.hidden = false;
    button.removeAttribute("aria-disabled");
  }
}

if (window.PublicKeyCredential && navigator.credentials) {
  for (const element of document.querySelectorAll("[data-passkey-unsupported]")) element.hidden = true;
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    form.querySelector("[autofocus]")?.focus();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!form.querySelector("button[aria-disabled]")) askForPasskey(form);
    });
  }
  // After "back", the button works again.
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("form[data-passkey] button")) button.removeAttribute("aria-disabled");
  });
}
