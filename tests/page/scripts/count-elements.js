() => {
  // What a text in Markdown may be made of; how much of it depends on the text.
  const tags = ["div", "p", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br",
    "em", "strong", "del", "code", "pre", "a", "span", "table", "thead", "tbody", "tr", "th", "td",
    "button"];
  const names = ["class", "dir", "role", "aria-label", "aria-level", "tabindex", "href", "title",
    "rel", "target", "start", "scope", "type", "style", "data-loose", "data-number"];
  const kinds = {}, attributes = new Set(), texts = [], values = [], suspects = [];
  const walk = (root) => {
    for (const node of root.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) { texts.push(node.data); continue; }
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      const classes = [...node.classList].map((one) => `.${one}`).join("");
      const kind = `${node.namespaceURI.split("/").at(-1)}:${node.localName}${classes}`;
      const isMarkdown = node.parentElement?.closest(".markdown") != null;
      if (isMarkdown && !tags.includes(node.localName)) suspects.push(kind);
      if (!isMarkdown) kinds[kind] = (kinds[kind] ?? 0) + 1;
      for (const { name, value } of node.attributes) {
        if (!isMarkdown) attributes.add(name);
        else if (!names.includes(name)) suspects.push(name);
        if (isMarkdown && name === "href" && !/^(?:https?|mailto):/.test(value)) suspects.push(value);
        values.push(value);
        // The page sets styles itself. They load nothing and contain no text.
        const isOdd = name === "style" ? /url|@|["'\\]/.test(value) : /^on/.test(name);
        if (isOdd) suspects.push(`${node.localName} ${name}=${value}`);
      }
      if ("value" in node && typeof node.value === "string") values.push(node.value);
      if (node.localName === "script" || node.localName === "style") continue;
      if (node.shadowRoot) walk(node.shadowRoot);
      walk(node);
    }
  };
  walk(document);
  const pwned = window.pwned ?? null;
  const text = texts.join("");
  return JSON.stringify({ kinds, attributes: [...attributes], text, values, suspects, pwned });
}
