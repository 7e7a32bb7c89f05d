() => {
  const calls = [...document.querySelectorAll("tool-call")];
  const inCalls = calls.flatMap((call) => [...call.shadowRoot.querySelectorAll("*")]);
  const all = [...document.getAnimations(), ...inCalls.flatMap((one) => one.getAnimations())];
  return all.filter((one) => one.playState === "running").length;
}
