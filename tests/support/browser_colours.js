// Every text of a page with its colour, and the colour of the nearest ground below it.
[...document.body.querySelectorAll("*")].filter((element) =>
  element instanceof HTMLElement && element.tagName !== "SCRIPT" && element.getClientRects().length
  && [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())
).map((element) => {
  const ground = (below) => {
    const colour = below ? getComputedStyle(below).backgroundColor : "rgb(255, 255, 255)";
    return colour === "rgba(0, 0, 0, 0)" ? ground(below.parentElement) : colour;
  };
  return [element.textContent.trim().slice(0, 40), getComputedStyle(element).color, ground(element)];
})
