([languages, units]) => {
  const took = (language, text) => {
    const begun = performance.now();
    tokens(language, text);
    return performance.now() - begun;
  };
  return languages.flatMap((language) => units.filter((unit) => {
    const text = unit.repeat(40_000 / unit.length);
    return took(language, text) > 400 && took(language, text) > 400;
  }).map((unit) => [language, unit]));
}
